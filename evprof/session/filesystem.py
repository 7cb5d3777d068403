"""Whether a path lies on a network file system, where SQLite's write-ahead log does not work."""

from __future__ import annotations

from pathlib import Path

NETWORK_KINDS = frozenset(
    [
        *("nfs", "nfs3", "nfs4", "cifs", "smbfs", "smb2", "smb3", "9p", "afs", "ncpfs", "davfs"),
        *("ceph", "lustre", "gpfs", "beegfs", "glusterfs", "ocfs2", "gfs2", "pvfs2"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.cephfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.davfs2"),
    ]
)

_MOUNTS = Path("/proc/mounts")


def network_kind(path: Path, mounts: str | None = None) -> str | None:
    """The kind of network file system `path` is on (`nfs4`), or None on a local one or where nobody can say.

    `mounts` is text as in /proc/mounts, read from there by default; other systems than Linux have none.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
    # The real folder: a link may point from a local disk to a remote one.
    place = path.resolve()
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        mount = Path(_unescaped(fields[1]))
        # A later mount on the same point hides the earlier one.
        if place.is_relative_to(mount) and len(mount.parts) >= best:
            best, kind = len(mount.parts), fields[2]
    return kind if kind in NETWORK_KINDS else None


def _unescaped(text: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text
