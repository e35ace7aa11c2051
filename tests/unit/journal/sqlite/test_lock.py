"""Who may have a folder: one process, on a disk of this machine."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from abeyance.errors import ConfigurationError
from abeyance.journal.sqlite.lock import FolderLock, filesystem_in, mounted_filesystem

MOUNTS = r"""
22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:50 / /srv rw - nfs4 host:/srv rw
31 30 0:51 / /srv/fast rw - xfs /dev/vdb rw
32 22 0:52 / /mnt/my\040disk rw shared:3 master:2 - fuse.sshfs me@host: rw
33 22 0:53 / /over rw - ext4 /dev/vdc rw
34 22 0:54 / /over rw - cifs //host/over rw
a line that says nothing
"""


def local(_: Path) -> str:
    return "ext4"


class TestFolderLock:
    def test_the_folder_and_the_lock_are_private(self, tmp_path: Path) -> None:
        file = tmp_path / "deep" / "folder" / "journal.lock"

        lock = FolderLock.acquire(file, local)
        lock.release()

        assert 0o700 == file.parent.stat().st_mode & 0o777
        assert 0o600 == file.stat().st_mode & 0o777

    @pytest.mark.case("J07")
    def test_a_second_holder_is_told_what_to_do(self, tmp_path: Path) -> None:
        lock = FolderLock.acquire(tmp_path / "journal.lock", local)

        with pytest.raises(ConfigurationError, match=rf"process \({os.getpid()}\).*PostgreSQL"):
            FolderLock.acquire(tmp_path / "journal.lock", local)

        lock.release()
        lock.release()
        FolderLock.acquire(tmp_path / "journal.lock", local).release()

    @pytest.mark.case("J07")
    def test_another_process_is_refused_and_death_lets_go(self, tmp_path: Path) -> None:
        file = tmp_path / "journal.lock"
        hold = (
            "import sys; from pathlib import Path; from abeyance.journal.sqlite.lock import FolderLock\n"
            "lock = FolderLock.acquire(Path(sys.argv[1]), lambda path: 'ext4')\n"
            "print('held', flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", hold, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout is not None
            assert b"held\n" == holder.stdout.readline()
            with pytest.raises(ConfigurationError, match=str(holder.pid)):
                FolderLock.acquire(file, local)
            holder.kill()

        FolderLock.acquire(file, local).release()

    @pytest.mark.case("J02")
    @pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs", "fuse"])
    def test_network_and_shared_disks_are_refused(self, tmp_path: Path, kind: str) -> None:
        with pytest.raises(ConfigurationError, match=rf"\({kind}\).*local disk"):
            FolderLock.acquire(tmp_path / "journal.lock", lambda _: kind)

        assert not (tmp_path / "journal.lock").exists()

    @pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "apfs", ""])
    def test_local_and_unknown_disks_are_used(self, tmp_path: Path, kind: str) -> None:
        FolderLock.acquire(tmp_path / "journal.lock", lambda _: kind).release()

    def test_a_folder_that_is_a_file_is_a_clear_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")

        with pytest.raises(ConfigurationError, match=os.strerror(errno.EEXIST)):
            FolderLock.acquire(tmp_path / "file" / "journal.lock", local)


class TestFilesystemType:
    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/home/me", "ext4"),
            ("/srv/journal", "nfs4"),
            ("/srv/fast/journal", "xfs"),
            ("/srvfast", "ext4"),
            ("/mnt/my disk/journal", "fuse.sshfs"),
            ("/over", "cifs"),
        ],
    )
    def test_the_nearest_mount_says_it(self, path: str, kind: str) -> None:
        assert kind == filesystem_in(MOUNTS, Path(path))

    def test_nothing_known_is_empty(self) -> None:
        assert "" == filesystem_in("", Path("/home"))

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists its mounts")
    def test_this_machine_says_something(self, tmp_path: Path) -> None:
        assert mounted_filesystem(tmp_path)
