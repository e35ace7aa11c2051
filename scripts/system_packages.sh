#!/usr/bin/env bash
# Installs what the system tests need beyond pip, where this may be done, and names what is still missing.
set -uo pipefail
declare -A packages=(
  [pgbouncer]=pgbouncer [chromium]=chromium [jq]=jq [openssl]=openssl
  [go]="golang-go golang-golang-x-mod-dev"
)
there() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ]; }

missing=()
for program in "${!packages[@]}"; do
  there "$program" || missing+=("$program")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq >/dev/null 2>&1
  for program in "${missing[@]}"; do
    # Unquoted: one program may be several packages.
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq ${packages[$program]} >/dev/null 2>&1
  done
fi
for program in "${missing[@]}"; do
  there "$program" || echo "this machine lacks $program: its tests are skipped"
done
exit 0
