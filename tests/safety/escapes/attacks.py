"""Attacks out of a sandbox, each against something that `outside.py` makes.

`ID` in a target is replaced by a name of its own for each test, `{target}` in an attack by the target. An attack prints
a line that begins with ESCAPED, or its target notices it.
"""

from __future__ import annotations

from typing import NamedTuple


class Attack(NamedTuple):
    name: str
    kind: str
    """What is attacked, a method of `Outside`."""
    target: str
    code: str
    language: str = "python"
    as_root: bool | None = None
    """Whether only root can make it (True), or only an ordinary user (False)."""
    is_own: bool = False
    """It prints ESCAPED in the sandbox as well, as the same path is a file of the sandbox: only the target counts."""


_CONNECT = (
    "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_{kind}); s.settimeout(2); s.connect({address}); "
    "print(s.recv(99).decode())"
)
STREAM = _CONNECT.format(kind="STREAM", address="'{target}'")
ABSTRACT = _CONNECT.format(kind="STREAM", address="'\\x00{target}'")
DATAGRAM = "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'x', '{target}'); "
OPEN = "import os; os.close(os.open('{target}', os.O_WRONLY)); print('ESCAPED')"
READ = "import os; os.close(os.open('{target}', os.O_RDONLY)); print('ESCAPED')"
CALL = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); "
WRITE = "open('{target}', 'w').write('ESCAPED'); print('ESCAPED')"

PLACES = {
    "tmux": "/tmp/ID/tmux-0/default",
    "deep in /tmp": "/tmp/ID/a/b/c/d/e/sock",
    "hidden in /tmp": "/tmp/ID/.hidden/sock",
    "X11": "/tmp/ID/.X11-unix/X9",
    "agent for keys": "/tmp/ID/ssh-x/agent.1",
    "/var/tmp": "/var/tmp/ID/sock",
    "/dev/shm": "/dev/shm/ID-sock",
    "keys at home": "~/.gnupg/S.gpg-agent",
    "docker at home": "~/.docker/run/docker.sock",
    "cache at home": "~/.cache/ID/sock",
    "another project": "~/projects/other/.sock",
    "beside the workspace": "BASE/beside/sock",
    "name that begins like the workspace": "BASE/work-other/sock",
}
ROOT_PLACES = {
    "D-Bus": "/run/ID/dbus/system_bus_socket",
    "docker": "/var/run/ID/docker.sock",
    "a service": "/opt/ID/service/sock",
    "/srv": "/srv/ID.sock",
    "a database": "/var/lib/ID/mysql.sock",
}

SOCKETS = (
    *(Attack(f"socket: {name}", "stream", path, STREAM) for name, path in PLACES.items()),
    *(Attack(f"socket: {name}", "stream", path, STREAM, as_root=True) for name, path in ROOT_PLACES.items()),
    Attack("packets", "packets", "/tmp/ID/packets", _CONNECT.format(kind="SEQPACKET", address="'{target}'")),
    Attack("datagram", "datagram", "BASE/beside/datagrams", DATAGRAM),
    Attack(
        "datagram from a pair",
        "datagram",
        "BASE/beside/more-datagrams",
        "import socket; a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); b.close(); "
        "a.sendto(b'x', '{target}')",
    ),
    Attack("raw socket", "datagram", "BASE/beside/raw", DATAGRAM.replace("SOCK_DGRAM", "SOCK_RAW")),
    Attack(
        "through a link",
        "stream",
        "BASE/beside/linked",
        "import os; os.symlink('{target}', 'link'); " + STREAM.replace("{target}", "link"),
    ),
    Attack(
        "through a link to its folder",
        "stream",
        "BASE/beside/in-linked-folder",
        "import os; os.symlink(os.path.dirname('{target}'), 'folder'); "
        + STREAM.replace("{target}", "folder/in-linked-folder"),
    ),
    Attack(
        "through a hard link",
        "stream",
        "BASE/beside/hard",
        "import os; os.link('{target}', 'hard'); " + STREAM.replace("{target}", "hard"),
    ),
    Attack(
        "from its folder",
        "stream",
        "BASE/beside/from-folder",
        "import os; os.chdir(os.path.dirname('{target}')); " + STREAM.replace("{target}", "from-folder"),
    ),
    Attack(
        "by a relative path", "stream", "BASE/beside/relative", STREAM.replace("{target}", "../work/../beside/relative")
    ),
    Attack(
        "through an open folder",
        "stream",
        "BASE/beside/fd",
        "import os; d = os.open(os.path.dirname('{target}'), os.O_PATH); "
        + STREAM.replace("'{target}'", "f'/proc/self/fd/{d}/fd'"),
    ),
    Attack(
        "through an open socket file",
        "stream",
        "BASE/beside/path-fd",
        "import os; d = os.open('{target}', os.O_PATH); " + STREAM.replace("'{target}'", "f'/proc/self/fd/{d}'"),
    ),
    Attack(
        "through /proc/self/root", "stream", "BASE/beside/root", STREAM.replace("{target}", "/proc/self/root{target}")
    ),
    Attack(
        "that appears later",
        "late",
        "BASE/beside/late",
        "import socket, time\nfor _ in range(25):\n  s = socket.socket(socket.AF_UNIX)\n  try: s.connect('{target}'); "
        "print(s.recv(9).decode()); break\n  except OSError: time.sleep(0.1)",
    ),
    Attack(
        "address exchanged by a second thread",
        "stream",
        "BASE/beside/raced",
        CALL + "import socket, threading, time\n"
        "def address(path): return (1).to_bytes(2, 'little') + path.encode().ljust(106, b'\\0')\n"
        "own = socket.socket(socket.AF_UNIX); own.bind('own-raced'); own.listen(9999)\n"
        "bad, good = address('{target}'), address('own-raced'); shared = ctypes.create_string_buffer(good, 108)\n"
        "def exchange():\n  while True: ctypes.memmove(shared, bad, 108); ctypes.memmove(shared, good, 108)\n"
        "threading.Thread(target=exchange, daemon=True).start(); end = time.monotonic() + 0.5\n"
        "while time.monotonic() < end:\n  s = socket.socket(socket.AF_UNIX); s.settimeout(0.01)\n"
        "  if c.connect(s.fileno(), shared, 108) == 0:\n    try: print(s.recv(9).decode()); break\n"
        "    except OSError: pass",
    ),
    Attack("abstract", "abstract", "ID-abstract", ABSTRACT),
    Attack("abstract: X11", "abstract", "/tmp/ID/.X11-unix/X9", ABSTRACT),
    Attack("abstract datagram", "abstract datagram", "ID-datagram", DATAGRAM.replace("{target}", "\\x00{target}")),
    Attack(
        "abstract, found in the list",
        "abstract",
        "ID-listed",
        "n = [l.split()[-1] for l in open('/proc/net/unix') if '@{target}' in l][0]; "
        + ABSTRACT.replace("'\\x00{target}'", "'\\x00' + n[1:]"),
    ),
    Attack("tmux", "tmux", "BASE/beside/tmux", "tmux -S {target} run-shell 'touch {target}.proof'", "bash"),
    Attack(
        "ssh-agent",
        "ssh-agent",
        "BASE/beside/agent",
        "SSH_AUTH_SOCK={target} ssh-add -l; [ $? = 1 ] && echo ESCAPED",
        "bash",
    ),
    Attack(
        "by a ring",
        "nothing",
        "",
        CALL + "print('ESCAPED' if c.syscall(425, 2, ctypes.create_string_buffer(120)) >= 0 else '')",
    ),
)

SYSTEM = (
    *(
        Attack(path, "there", path, OPEN, as_root=True)
        for path in (
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/modprobe",
            "/proc/sys/vm/drop_caches",
            "/proc/sys/kernel/printk_ratelimit",
            "/proc/self/root/proc/sys/kernel/core_pattern",
            "/proc/sysrq-trigger",
            "/proc/irq/default_smp_affinity",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/class/net/lo/mtu",
            "/dev/kmsg",
        )
    ),
    *(
        Attack(f"reads {path}", "device", path, READ, as_root=True)
        for path in ("/dev/vda", "/dev/sda", "/dev/fuse", "/dev/kmsg", "/proc/kcore")
    ),
    Attack(
        "a device by another name",
        "device",
        "/dev/kmsg",
        "import os, stat; os.mknod('device', 0o600 | stat.S_IFCHR, os.stat('{target}').st_rdev); "
        "os.close(os.open('device', os.O_RDONLY)); print('ESCAPED')",
        as_root=True,
    ),
    Attack(
        "a mount",
        "nothing",
        "",
        CALL + "os.mkdir('m'); c.unshare(0x20000); c.mount(None, b'/', None, 0x44000, None)\n"
        "print('ESCAPED' if c.mount(b'none', b'm', b'tmpfs', 0, None) == 0 else '')",
        as_root=True,
    ),
    Attack(
        "a mount in another namespace",
        "missing",
        "BASE/beside/by-mount",
        CALL + "print(c.unshare(0x10020000)); d = os.path.dirname('{target}').encode()\n"
        "print(c.mount(None, b'/', None, 0x44000, None), c.mount(d, d, None, 4096, None), c.mount(None, d, None, 4128, None))\n"
        + WRITE,
    ),
    Attack("set-user-id", "setuid", "/usr/bin/su", CALL + "print('ESCAPED' if c.prctl(39, 0, 0, 0, 0) == 0 else '')"),
    Attack(
        "a key of the user",
        "key",
        "ID-key",
        CALL + "print('ESCAPED' if c.syscall(248, b'user', b'{target}', b'x', 1, -4) > 0 else '')",
    ),
)

_PROCESS = "import os, signal; "
PROCESSES = (
    Attack("signal 0", "process", "", _PROCESS + "os.kill({target}, 0); print('ESCAPED')"),
    Attack("stop", "process", "", _PROCESS + "os.kill({target}, signal.SIGSTOP)"),
    Attack("kill", "process", "", _PROCESS + "os.kill({target}, signal.SIGKILL)"),
    Attack("signal to its group", "process", "", _PROCESS + "os.killpg({target}, signal.SIGCONT); print('ESCAPED')"),
    Attack(
        "signal by a descriptor",
        "process",
        "",
        _PROCESS + "signal.pidfd_send_signal(os.pidfd_open({target}), signal.SIGCONT); print('ESCAPED')",
    ),
    Attack("ptrace attach", "process", "", CALL + "print('ESCAPED' if c.ptrace(16, {target}, 0, 0) == 0 else '')"),
    Attack("ptrace seize", "process", "", CALL + "print('ESCAPED' if c.ptrace(0x4206, {target}, 0, 0) == 0 else '')"),
    Attack(
        "memory",
        "process",
        "",
        "a = int(open('/proc/{target}/maps').readline().split('-')[0], 16); f = open('/proc/{target}/mem', 'rb', 0); "
        "f.seek(a); print('ESCAPED' if f.read(16) else '')",
    ),
    Attack(
        "environment", "process with secret", "", "print(open('/proc/{target}/environ').read().split('SECRET=')[1])"
    ),
    Attack(
        "list of processes", "process", "", "import os; print('ESCAPED' if '{target}' in os.listdir('/proc') else '')"
    ),
    Attack(
        "a write through its root",
        "process with file",
        "BASE/beside/through-root",
        "import os; p = os.readlink('/proc/{target}/fd/9'); open('/proc/{target}/root' + p, 'w'); print('ESCAPED')",
    ),
    Attack("its folder", "process", "", "import os; os.listdir('/proc/{target}/cwd'); print('ESCAPED')"),
    Attack("its open file", "process with file", "BASE/beside/open", "print(open('/proc/{target}/fd/9').read())"),
    Attack(
        "its open file, to write",
        "process with file",
        "BASE/beside/written",
        "open('/proc/{target}/fd/9', 'w'); print('ESCAPED')",
    ),
    Attack(
        "a copy of its descriptor",
        "process with file",
        "BASE/beside/copied",
        CALL + "f = c.syscall(438, os.pidfd_open({target}), 9, 0); print(os.pread(f, 99, 0).decode())",
    ),
    Attack(
        "its limits",
        "process",
        "",
        "import resource as r; r.prlimit({target}, r.RLIMIT_CORE, (0, 0)); print('ESCAPED')",
    ),
    Attack("its priority", "process", "", "import os; os.setpriority(os.PRIO_PROCESS, {target}, 19); print('ESCAPED')"),
    Attack(
        "shared memory",
        "shared memory",
        "0x1717ID",
        CALL + "c.shmat.restype = ctypes.c_void_p; a = c.shmat(c.shmget({target}, 0, 0), None, 0o10000); "
        "print(ctypes.string_at(a, 7).decode())",
    ),
    Attack(
        "messages",
        "message queue",
        "0x1717ID",
        CALL
        + "print('ESCAPED' if c.msgrcv(c.msgget({target}, 0), ctypes.create_string_buffer(108), 100, 0, 0o4000) > 0 else '')",
    ),
    Attack("another terminal", "terminal", "", WRITE),
)

FILES = (
    *(
        Attack(f"write: {path}", "file", path, WRITE, is_own=not path.startswith(("~", "BASE")))
        for path in ("BASE/beside/a", "~/.bashrc-ID", "/tmp/ID/b", "/var/tmp/ID/c", "/dev/shm/ID-d")
    ),
    *(
        Attack(
            f"create: {path}",
            "missing",
            path,
            "import os; os.makedirs(os.path.dirname('{target}'), exist_ok=True); " + WRITE,
        )
        for path in ("BASE/beside/new", "~/.config/autostart/ID.desktop", "~/.local/bin/ID")
    ),
    Attack("named pipe", "pipe", "BASE/beside/pipe", WRITE.replace("ESCAPED", "x", 1)),
    Attack("named pipe at home", "pipe", "~/.cache/ID/pipe", WRITE.replace("ESCAPED", "x", 1)),
    Attack("through a link", "file", "BASE/beside/e", "import os; os.symlink('{target}', 'l'); open('l', 'w')"),
    Attack("through a hard link", "file", "BASE/beside/f", "import os; os.link('{target}', 'h'); open('h', 'w')"),
    Attack("moved away", "file", "BASE/beside/g", "import os; os.rename('{target}', 'taken')"),
    Attack("moved there", "file", "BASE/beside/h", "import os; open('x', 'w'); os.rename('x', '{target}')"),
    Attack("deleted", "file", "BASE/beside/i", "import os; os.unlink('{target}')"),
    Attack("emptied", "file", "BASE/beside/j", "import os; os.truncate('{target}', 0)"),
    Attack("rights", "file", "BASE/beside/k", "import os; os.chmod('{target}', 0o777)"),
    Attack("owner", "file", "BASE/beside/l", "import os; os.chown('{target}', os.getuid(), os.getgid())"),
    Attack("times", "file", "BASE/beside/m", "import os; os.utime('{target}', (1, 1))"),
    Attack("attributes", "file", "BASE/beside/n", "import os; os.setxattr('{target}', 'user.x', b'x')"),
    Attack("through /proc/self/root", "file", "BASE/beside/o", "open('/proc/self/root{target}', 'w')"),
    Attack(
        "by its handle",
        "file",
        "BASE/beside/p",
        CALL
        + "\nclass H(ctypes.Structure): _fields_ = [('n', ctypes.c_uint), ('t', ctypes.c_int), ('d', ctypes.c_char * 128)]\n"
        "h, m = H(128), ctypes.c_int(); c.name_to_handle_at(-100, b'{target}', ctypes.byref(h), ctypes.byref(m), 0)\n"
        "f = c.open_by_handle_at(os.open(os.path.dirname('{target}'), 0), ctypes.byref(h), 1); os.write(f, b'x')",
        as_root=True,
    ),
)

_TCP = "import socket; s = socket.create_connection(('{address}', {{target}}), 2); print(s.recv(9).decode())"
NETWORK = (
    Attack("TCP", "tcp", "0", _TCP.format(address="127.0.0.1")),
    Attack("TCP to no address", "tcp", "0", _TCP.format(address="0.0.0.0")),
    Attack("TCP to a mapped address", "tcp", "0", _TCP.format(address="::ffff:127.0.0.1")),
    Attack("TCP by the shell", "tcp", "0", "exec 3<>/dev/tcp/127.0.0.1/{target} && head -1 <&3", "bash"),
    Attack(
        "UDP",
        "udp",
        "0",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {target}))",
    ),
    Attack("UDP by the shell", "udp", "0", "echo x > /dev/udp/127.0.0.1/{target}", "bash"),
    Attack("packets of the wire", "nothing", "", "import socket; socket.socket(17, 3); print('ESCAPED')", as_root=True),
)

ATTACKS = (*SOCKETS, *SYSTEM, *PROCESSES, *FILES, *NETWORK)
