#!/usr/bin/env bash
# Installs what the system tests need beyond pip, where this may be done, and names what is still missing.
set -uo pipefail
missing=()
for program in pgbouncer chromium jq openssl; do
  command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] || missing+=("$program")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq >/dev/null 2>&1
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null 2>&1
fi
for program in "${missing[@]}"; do
  command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] || echo "this machine lacks $program: its tests are skipped"
done
exit 0
