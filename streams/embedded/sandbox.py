"""Drops rights of this process permanently: files (Landlock), sockets, programs and children (seccomp), by ctypes.

Call `restrict` while the process has one thread, before it loads untrusted code: Landlock covers the calling thread and
the threads that it starts later. Supports Linux on x86-64 and arm64, from kernel 5.13 on; it is complete or an error.
"""

import ctypes
import importlib.util
import os
import platform
import resource
import struct
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from streams.wire.errors import Misconfigured

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_SET_DUMPABLE = 38, 22, 4
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC = 1, 1
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_VERSION, _PATH_BENEATH = 1, 1

# linux/landlock.h
_WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
_ALL_OF_ABI_1 = (1 << 13) - 1
_REFER, _IOCTL_DEV = 1 << 13, 1 << 15
_EXECUTE, _MAKE_CHAR, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK = 1, 1 << 6, 1 << 9, 1 << 10, 1 << 11
_FILE_RIGHTS = _WRITE_FILE | _READ_FILE | _TRUNCATE
_NET, _SCOPES = 3, 3  # TCP bind and connect; abstract sockets and signals

_AUDIT_X86_64, _AUDIT_AARCH64 = 0xC000003E, 0xC00000B7
_X32_BIT = 0x40000000
_CLONE_THREAD = 0x00010000

# Numbers from asm/unistd_64.h (x86-64) and asm-generic/unistd.h (arm64); from 424 on both are equal.
_DENIED = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200),
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "mknod": (133, None), "mknodat": (259, 33), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60), "setdomainname": (171, 162),
    "sethostname": (170, 161), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "iopl": (172, None), "ioperm": (173, None), "pidfd_send_signal": (424, 424), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsmount": (432, 432), "pidfd_getfd": (438, 438), "mount_setattr": (442, 442),
}  # fmt: skip
# Landlock restricts truncate() of a path from version 3 (Linux 6.2) on.
_TRUNCATE_CALL = (76, 45)
_CLONE, _CLONE3, _TGKILL = (56, 220), 435, (234, 131)
_OPEN, _OPENAT, _OPENAT2 = 2, (257, 56), 437
_O_CREAT, _O_NOFOLLOW = 0o100, (0o400000, 0o100000)
_SECCOMP = (317, 277)

_EPERM, _ENOSYS = 1, 38
_RET_ALLOW, _RET_ERRNO, _RET_KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _JEQ, _JSET, _JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06
_AT_NUMBER, _AT_ARCH, _AT_ARGUMENT_0, _ARGUMENT_BYTES = 0, 4, 16, 8


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def restrict(*, read: Iterable[Path], write: Iterable[Path]) -> None:
    """Restrict this process to the files below `read` and `write`; deny new sockets, programs and child processes.

    Open sockets stay usable. Raises Misconfigured if this system cannot restrict all of that.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not sys.platform.startswith("linux"):
        raise Misconfigured(f"no sandbox on {sys.platform}")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise Misconfigured(f"no sandbox: no_new_privs is refused ({_reason()})")
    # seccomp follows Landlock, so that it cannot hide a failure of Landlock.
    version = _restrict_files(libc, read, write)
    _restrict_calls(libc, denies_truncate=version < 3)


def hide_memory() -> None:
    """Prevent other processes of the user from reading the memory, which has passwords, and from attaching a debugger.

    Call it after the libraries are loaded: chdb reads /proc/self/auxv at its start, which only root can do afterwards.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _reason() -> str:
    return os.strerror(ctypes.get_errno())


def _restrict_files(libc: ctypes.CDLL, read: Iterable[Path], write: Iterable[Path]) -> int:
    """Restrict files; return the version of Landlock."""
    abi = int(libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION))
    if abi < 1:
        raise Misconfigured(f"no sandbox: the kernel {platform.release()} has no Landlock ({_reason()})")
    files = _ALL_OF_ABI_1 | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    files |= _IOCTL_DEV if abi >= 5 else 0
    attributes = struct.pack("=QQQ", files, _NET if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = int(libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))
    if ruleset < 0:
        raise Misconfigured(f"no sandbox: Landlock is refused ({_reason()})")
    writing = files & ~(_EXECUTE | _MAKE_CHAR | _MAKE_BLOCK | _MAKE_SOCK | _MAKE_FIFO | _IOCTL_DEV)
    try:
        for paths, rights in ((read, _READ_FILE | _READ_DIR), (write, writing)):
            for path in paths:
                _allow(libc, ruleset, path, rights)
        if libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0):
            raise Misconfigured(f"no sandbox: Landlock is refused ({_reason()})")
    finally:
        os.close(ruleset)
    return abi


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    """Grant `rights` below a path; ignore a path that does not exist.

    The files of /proc stay open, because a rule applies to an inode and the kernel makes new inodes after an eviction.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        given = rights if path.is_dir() else rights & _FILE_RIGHTS
        rule = struct.pack("=Qi", given, descriptor)
        if libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0):
            raise Misconfigured(f"no sandbox: Landlock refuses {path} ({_reason()})")
    finally:
        if not path.is_relative_to("/proc"):
            os.close(descriptor)


def _restrict_calls(libc: ctypes.CDLL, *, denies_truncate: bool) -> None:
    machine = platform.machine()
    if machine not in {"x86_64", "aarch64"} or sys.maxsize < 1 << 32:
        raise Misconfigured(f"no sandbox: no system call table for {machine}")
    column = 0 if machine == "x86_64" else 1
    program = seccomp_program(column, os.getpid(), denies_truncate=denies_truncate)
    buffer = ctypes.create_string_buffer(program, len(program))
    given = _Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    # TSYNC applies the filter to all threads; the call fails with the id of a thread that cannot take it.
    code = libc.syscall(_SECCOMP[column], _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, ctypes.byref(given))
    if code:
        reason = _reason() if code < 0 else f"thread {code} cannot be restricted"
        raise Misconfigured(f"no sandbox: seccomp is refused ({reason})")


def seccomp_program(column: int, pid: int, *, denies_truncate: bool = False) -> bytes:
    """Return the filter for x86-64 (column 0) or arm64 (1): the denied calls fail with EPERM."""
    calls = [*_DENIED.values(), *([_TRUNCATE_CALL] if denies_truncate else [])]
    denied = sorted(number for numbers in calls if (number := numbers[column]) is not None)
    eperm = (_RET, 0, 0, _RET_ERRNO | _EPERM)
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _AT_ARCH),
        (_JEQ, 1, 0, (_AUDIT_X86_64, _AUDIT_AARCH64)[column]),
        (_RET, 0, 0, _RET_KILL),
        (_LOAD, 0, 0, _AT_NUMBER),
        # x32 has other numbers for the same calls.
        (_JGE, 0, 1, _X32_BIT),
        eperm,
        # These hide their flags behind a pointer: with ENOSYS, the C library uses clone and openat.
        (_JEQ, 1, 0, _CLONE3),
        (_JEQ, 0, 1, _OPENAT2),
        (_RET, 0, 0, _RET_ERRNO | _ENOSYS),
    ]
    for number in denied:
        code += [(_JEQ, 0, 1, number), eperm]
    # Permits threads, denies processes, and permits tgkill only to this process (abort, the engine's own threads).
    code += [(_JEQ, 0, 4, _CLONE[column]), (_LOAD, 0, 0, _AT_ARGUMENT_0), (_JSET, 1, 0, _CLONE_THREAD), eperm]
    code += [(_RET, 0, 0, _RET_ALLOW)]
    code += [(_JEQ, 0, 3, _TGKILL[column]), (_LOAD, 0, 0, _AT_ARGUMENT_0), (_JEQ, 1, 0, pid), eperm]
    # Of the engine only SQLite makes files that may not be links, and before rights are checked.
    for number, place in ((_OPENAT[column], 2), *(((_OPEN, 1),) if column == 0 else ())):
        code += [(_JEQ, 0, 5, number), (_LOAD, 0, 0, _AT_ARGUMENT_0 + place * _ARGUMENT_BYTES)]
        code += [(_JSET, 0, 2, _O_CREAT), (_JSET, 0, 1, _O_NOFOLLOW[column]), eperm, (_RET, 0, 0, _RET_ALLOW)]
    code += [(_RET, 0, 0, _RET_ALLOW)]
    return b"".join(_instruction(*one) for one in code)


def _instruction(code: int, if_true: int, if_false: int, operand: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def interpreter_paths() -> list[Path]:
    """Return the paths that a Python process must read: the system's libraries, time zones, CPU and memory."""
    libraries = [Path(path) for name in ("stdlib", "platstdlib") if (path := sysconfig.get_paths().get(name))]
    system = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/etc/timezone",
              "/usr/share/zoneinfo", "/dev/urandom", "/dev/random", "/dev/null", "/proc/self/maps", "/proc/self/statm",
              # Without it, chdb reads the memory behind the environment as the auxiliary vector, and may crash.
              "/proc/self/auxv",
              # For each statement, a thread of the engine opens its schedstat; a refusal raises an exception with a
              # stack trace, 3 ms of CPU per small INSERT. The environment is readable there too; it has no secrets.
              "/proc/self/task",
              "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/sys/devices/system/cpu", "/sys/devices/system/node",
              "/sys/fs/cgroup")  # fmt: skip
    return [*libraries, Path(sys.base_prefix) / "lib", *(Path(path) for path in system)]


def package_paths(*more: str) -> list[Path]:
    """Return the folders and files of all loaded packages, and of the packages `more`, wherever they are installed.

    The import system names them: environments, `--user`, `--target`, .pth files and links need no rules of their own.
    Searching a package also fills the import system's record of its folder, which cannot be listed afterwards.
    """
    names = {name for name in sys.modules if "." not in name} | set(more)
    packages = {path for name in names for path in _locations(name)}
    # Wheels have their libraries in folders beside their packages, as auditwheel names them.
    libraries = {one for parent in {path.parent for path in packages} for one in parent.glob("*.libs")}
    found = packages | libraries | {path for folder in packages | libraries for path in _link_targets(folder)}
    return sorted(path for path in found if path.exists())


def _locations(name: str) -> Iterator[Path]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # __main__ and modules without a spec
        return
    if spec is None:
        return
    if spec.submodule_search_locations is not None:
        yield from (Path(folder) for folder in spec.submodule_search_locations)
    elif spec.has_location and spec.origin is not None:
        yield Path(spec.origin)


def _link_targets(path: Path) -> Iterator[Path]:
    """Yield the folders in a cache to which an installer has linked the files of a package."""
    for file in path.iterdir() if path.is_dir() else ():
        if file.is_symlink() and file.is_file():
            yield file.resolve().parent
