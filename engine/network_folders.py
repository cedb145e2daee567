"""Tells folders of other machines apart: locks of databases do not hold there."""

import sys
from pathlib import Path

_KINDS = "nfs nfs4 cifs smb smb2 smb3 smbfs afs ncpfs ceph glusterfs lustre beegfs 9p afpfs webdav davfs"
_FUSE_KINDS = "sshfs rclone s3fs davfs glusterfs gvfsd-fuse"
NETWORK_FILESYSTEMS = frozenset(_KINDS.split()) | {f"fuse.{kind}" for kind in _FUSE_KINDS.split()}
"""As the system names them."""


def filesystem(path: Path, mounts: str) -> str:
    """The kind of file system a path is on, by a table as in /proc/mounts: device, place, kind, more."""
    real = path.resolve()
    best, found = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        place = Path(fields[1].encode("latin-1", "replace").decode("unicode_escape"))
        if len(place.parts) >= best and (real == place or place in real.parents):
            best, found = len(place.parts), fields[2]
    return found


if sys.platform == "win32":

    def is_on_network(path: Path) -> str | None:
        """How a folder of another machine is reached, None for one of this machine or where that is not known."""
        import ctypes

        remote = 4
        drive = path.absolute().drive
        far = drive.startswith("\\\\") or ctypes.windll.kernel32.GetDriveTypeW(f"{drive}\\") == remote
        return drive if far else None

else:

    def is_on_network(path: Path) -> str | None:
        """How a folder of another machine is reached, None for one of this machine or where that is not known."""
        kind = filesystem(path, mounts())
        return kind if kind in NETWORK_FILESYSTEMS else None


if sys.platform == "darwin":

    def mounts() -> str:
        """The table of mounted file systems."""
        import re
        import subprocess

        try:
            text = subprocess.run(["/sbin/mount"], capture_output=True, text=True, timeout=5, check=False).stdout
        except (OSError, subprocess.TimeoutExpired):
            return ""
        # `//user@server/share on /Volumes/share (smbfs, nodev, ...)`
        rows = re.findall(r"^(\S+) on (.*) \((\w+)", text, re.MULTILINE)
        return "\n".join(f"{device} {place.replace(' ', chr(92) + '040')} {kind}" for device, place, kind in rows)

else:

    def mounts() -> str:
        """The table of mounted file systems; empty where the system has none."""
        try:
            return Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
