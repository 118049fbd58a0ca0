#!/usr/bin/env python3
"""What shipway says that tasks use of an NVIDIA GPU, beside what nvidia-smi says in the same run.

    usage_on_gpu.py check SHIPWAY [--seconds 130] [--only untouched,idle,busy,memory,shares]
    usage_on_gpu.py burn KIND SECONDS [DUTY]      what the tasks run; needs nothing but the driver

`check` starts a server of its own in a new folder below --dir (the home folder unless given; not
/tmp, which tasks have of their own), submits each case, waits, and compares means over the task's
own time. It ends with 1 if a figure is further off than 5 % (or one point of a percentage), if a
piece of advice is missing or another one than expected, or if looking took more than 0.5 % of a
core. Advice needs two minutes, so --seconds below 125 checks figures alone. Not a part of any test:
it takes ten minutes and a GPU.
"""

import argparse
import ctypes
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry compute(.param .u64 target, .param .u64 count, .param .u32 rounds)
{
    .reg .pred %more;
    .reg .b32 %left, %x, %y, %z;
    .reg .f32 %a, %b, %c, %d;
    .reg .b64 %address, %offset;
    ld.param.u64 %address, [target];
    ld.param.u32 %left, [rounds];
    mov.u32 %x, %ctaid.x;
    mov.u32 %y, %ntid.x;
    mov.u32 %z, %tid.x;
    mad.lo.s32 %x, %x, %y, %z;
    cvt.rn.f32.u32 %a, %x;
    mov.f32 %b, 0f3F7FF000;
    mov.f32 %c, %a;
    mov.f32 %d, %a;
AGAIN:
    fma.rn.f32 %a, %a, %b, %b;
    fma.rn.f32 %c, %c, %b, %b;
    fma.rn.f32 %d, %d, %b, %b;
    fma.rn.f32 %a, %a, %b, %c;
    fma.rn.f32 %c, %c, %b, %d;
    fma.rn.f32 %d, %d, %b, %a;
    sub.u32 %left, %left, 1;
    setp.ne.u32 %more, %left, 0;
    @%more bra AGAIN;
    add.f32 %a, %a, %c;
    add.f32 %a, %a, %d;
    cvta.to.global.u64 %address, %address;
    mul.wide.u32 %offset, %x, 4;
    add.s64 %address, %address, %offset;
    st.global.f32 [%address], %a;
    ret;
}
.visible .entry move(.param .u64 target, .param .u64 count, .param .u32 rounds)
{
    .reg .pred %more;
    .reg .b32 %x, %y, %z, %p, %q, %r, %s;
    .reg .b64 %address, %half, %from, %to, %at, %step, %end;
    ld.param.u64 %address, [target];
    ld.param.u64 %end, [count];
    cvta.to.global.u64 %address, %address;
    add.s64 %half, %address, %end;
    mov.u32 %x, %ctaid.x;
    mov.u32 %y, %ntid.x;
    mov.u32 %z, %tid.x;
    mad.lo.s32 %x, %x, %y, %z;
    mul.wide.u32 %at, %x, 16;
    mov.u32 %x, %nctaid.x;
    mul.lo.u32 %x, %x, %y;
    mul.wide.u32 %step, %x, 16;
AGAIN:
    add.s64 %from, %address, %at;
    add.s64 %to, %half, %at;
    ld.global.v4.u32 {%p, %q, %r, %s}, [%from];
    st.global.v4.u32 [%to], {%p, %q, %r, %s};
    add.s64 %at, %at, %step;
    setp.lt.u64 %more, %at, %end;
    @%more bra AGAIN;
    ret;
}
\0"""


def burn(kind, seconds, duty=1.0):
    """Keeps the one visible GPU at it: `idle` has a context and memory and runs nothing, `compute`
    and `move` are at it for a part of the time, `nothing` never opens it."""
    if kind == "nothing":
        time.sleep(seconds)
        return
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        status = getattr(cuda, name)(*arguments)
        if status:
            sys.exit(f"{name}: {status}")

    device, context, module, function = (ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3)))
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    half = 1 << 30
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(2 * half))
    ends = time.monotonic() + seconds
    if kind == "idle":
        time.sleep(seconds)
        return
    call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
    call("cuModuleGetFunction", ctypes.byref(function), module, kind.encode())
    count, rounds = ctypes.c_uint64(half), ctypes.c_uint32(20_000)
    pointers = [ctypes.cast(ctypes.byref(it), ctypes.c_void_p) for it in (address, count, rounds)]
    arguments = (ctypes.c_void_p * 3)(*pointers)
    while time.monotonic() < ends:
        began = time.monotonic()
        # A few milliseconds each; enough of them to fill a tenth of a second.
        while time.monotonic() - began < 0.1 * duty:
            for _ in range(4):
                call("cuLaunchKernel", function, 2112, 1, 1, 256, 1, 1, 0, None, arguments, None)
            call("cuCtxSynchronize")
        spent = time.monotonic() - began
        if duty < 1.0:
            time.sleep(max(0.0, spent / duty - spent))


class Smi:
    """nvidia-smi, asked twice a second for all the time."""

    FIELDS = ["utilization.gpu", "utilization.memory", "memory.used", "power.draw",
              "temperature.gpu"]

    def __init__(self):
        fields = ",".join(["timestamp", *self.FIELDS])
        words = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits",
                 "-lms", "500"]
        self.file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(words, stdout=self.file)

    def between(self, start, end):
        self.file.seek(0)
        rows = []
        for line in self.file.read().splitlines():
            words = [word.strip() for word in line.split(",")]
            if len(words) != len(self.FIELDS) + 1:
                continue
            at = datetime.datetime.strptime(words[0], "%Y/%m/%d %H:%M:%S.%f").timestamp()
            if start <= at <= end:
                rows.append([float(word) for word in words[1:]])
        return dict(zip(self.FIELDS, zip(*rows)))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def mean(values):
    return sum(values) / max(1, len(values))


class Check:
    def __init__(self, program, home, seconds):
        self.program, self.seconds, self.failed = program, seconds, []
        self.env = dict(os.environ, SHIPWAY_HOME=str(home))
        words = [program, "up", "--listen", "127.0.0.1:0"]
        self.log = open(home.parent / "server.log", "w")
        self.server = subprocess.Popen(words, env=self.env, stdout=self.log, stderr=self.log)
        self.until(lambda: self.json("nodes")["nodes"][0]["gpus"], "the node offers no GPU")
        self.smi = Smi()

    def until(self, holds, problem):
        for _ in range(120):
            try:
                if holds():
                    return
            except (subprocess.CalledProcessError, LookupError, json.JSONDecodeError):
                pass
            time.sleep(0.5)
        self.server.terminate()
        sys.exit(problem)

    def cli(self, *words):
        ran = subprocess.run([self.program, *words], env=self.env, capture_output=True, text=True)
        if ran.returncode and words[0] != "wait":
            print(ran.stderr, file=sys.stderr)
            ran.check_returncode()
        return ran.stdout

    def json(self, *words):
        return json.loads(self.cli("--json", *words))

    def submit(self, gpus, kind, duty=1.0):
        text = pathlib.Path(__file__).read_text()
        words = ["run", "-d", "--gpus", gpus, "--cpus", "1", "--", sys.executable, "-c", text]
        return self.cli(*words, "burn", kind, str(self.seconds), str(duty)).strip()

    def ended(self, job):
        self.cli("wait", job)
        shown = self.json("show", f"{job}/0")
        task = shown["task"]
        if task["state"] != "succeeded":
            print(self.cli("logs", "--stderr", job))
            self.failed.append(f"job {job} is {task['state']}")
        return task, shown.get("series")

    def compare(self, name, ours, theirs, least):
        off = abs(ours - theirs)
        good = off <= max(least, 0.05 * theirs)
        print(f"  {name:<22} shipway {ours:>10.1f}   nvidia-smi {theirs:>10.1f}   "
              f"{'ok' if good else 'OFF'}")
        if not good:
            self.failed.append(name)

    def advice(self, task, *wanted):
        found = task.get("advice", {})
        print(f"  advice: {found.get('words', 'none')}")
        if self.seconds >= 125 and found.get("kind") not in wanted:
            self.failed.append(f"advice: {wanted} was expected")

    def figures(self, task):
        usage = task["usage"]
        start, end = task["started"] / 1000, task["ended"] / 1000
        seen = self.smi.between(start, end)
        wall = usage["wall_ms"] / 1000
        self.compare("GPU busy, %", usage["gpu_busy"] / 100, mean(seen["utilization.gpu"]), 1)
        self.compare("memory busy, %", usage["gpu_memory_busy"] / 100,
                     mean(seen["utilization.memory"]), 1)
        self.compare("memory, MiB", usage["gpu_memory"] / 2**20, max(seen["memory.used"]), 64)
        self.compare("power, W", usage["energy_mj"] / 1000 / wall, mean(seen["power.draw"]), 3)
        self.compare("hottest, C", usage["temperature_max"], max(seen["temperature.gpu"]), 2)
        print(f"  multiprocessors full: {usage.get('occupancy', 0) / 100} %, clocks held back "
              f"{usage.get('throttled_ms', 0) / 1000} s of {wall} s, "
              f"{usage.get('ecc_errors', 'unknown')} errors, {usage['looks']} looks")

    def whole(self, name, kind, *wanted):
        print(f"{name}:")
        task, series = self.ended(self.submit("1", kind))
        self.figures(task)
        self.advice(task, *wanted)
        points = len((series or {}).get("gpu_busy", []))
        print(f"  {points} points over time")

    def shares(self):
        print("two shares on one card:")
        jobs = [self.submit("0.5", "compute", 0.1), self.submit("0.5", "compute", 0.4)]
        tasks = [self.ended(job)[0] for job in jobs]
        start = max(task["started"] for task in tasks) / 1000
        end = min(task["ended"] for task in tasks) / 1000
        both = mean(self.smi.between(start, end)["utilization.gpu"])
        for task in tasks:
            usage = task["usage"]
            print(f"  busy {usage.get('gpu_busy', -100) / 100} %, memory "
                  f"{usage['gpu_memory'] / 2**20:.0f} MiB, {usage['looks']} looks")
        print(f"  both together by nvidia-smi: {both:.1f} % busy (they may run at the same time: "
              f"then their parts add up to more)")
        # Of its own memory each has two GiB and what CUDA takes.
        for task in tasks:
            self.compare("memory, MiB", task["usage"]["gpu_memory"] / 2**20, 2048 + 500, 600)
        if not tasks[0]["usage"].get("gpu_busy", 0) < tasks[1]["usage"].get("gpu_busy", 0):
            self.failed.append("the busier share is not told apart")
        self.advice(tasks[0], "smaller_gpu")

    def cost(self):
        """What looking takes: the thread that looks, and those that look for it and for others."""
        ticks = os.sysconf("SC_CLK_TCK")
        spent = {"usage": 0, "looks": 0}
        for task in pathlib.Path("/proc").glob("[0-9]*/task/*"):
            try:
                environ = (task.parent.parent / "environ").read_bytes()
                name = (task / "comm").read_text().strip()
                fields = (task / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            home = f"SHIPWAY_HOME={self.env['SHIPWAY_HOME']}".encode()
            if name in spent and home in environ.split(b"\0"):
                spent[name] += (int(fields[11]) + int(fields[12])) / ticks
        return spent


def check(arguments):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="usage-on-gpu-", dir=arguments.dir))
    run = Check(os.path.abspath(arguments.shipway), folder / "home", arguments.seconds)
    cases = {
        "untouched": lambda: run.whole("untouched", "nothing", "gpus_unused"),
        # Making a context keeps the card busy for a moment, which a sample meets or does not.
        "idle": lambda: run.whole("idle", "idle", "gpus_unused", "smaller_gpu"),
        "busy": lambda: run.whole("busy", "compute", None),
        "memory": lambda: run.whole("bound by memory", "move", "gpu_memory_bound"),
        "shares": run.shares,
    }
    began = time.monotonic()
    try:
        for name in arguments.only.split(","):
            # The thread ends with the last task, and its time with it.
            looked, since = [], time.monotonic()
            original = run.cli

            def watching(*words):
                if words and words[0] == "wait":
                    none = subprocess.DEVNULL
                    looker = subprocess.Popen([run.program, *words], env=run.env,
                                              stdout=none, stderr=none)
                    while looker.poll() is None:
                        looked.append((time.monotonic(), run.cost()))
                        time.sleep(2)
                    return ""
                return original(*words)

            run.cli = watching
            cases[name]()
            run.cli = original
            ran = time.monotonic() - since
            took = {who: max((spent[who] for _, spent in looked), default=0)
                    for who in ("usage", "looks")}
            print(f"  looking took {took['usage']:.2f} s of a core, and those that look for it "
                  f"{took['looks']:.2f} s, of {ran:.0f} s")
            # Where there are shares they look all the time anyway, to hold each to its memory.
            part = 100 * (took["usage"] + (0 if name == "shares" else took["looks"])) / ran
            print(f"  {part:.2f} % of a core")
            if part > 0.5:
                run.failed.append("looking takes too long")
    finally:
        run.smi.stop()
        run.server.terminate()
        run.server.wait()
        run.log.close()
    print(f"{time.monotonic() - began:.0f} s in all; "
          f"{'all is well' if not run.failed else 'NOT well: ' + ', '.join(run.failed)}")
    if not run.failed:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(bool(run.failed))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    checks = commands.add_parser("check")
    checks.add_argument("shipway")
    checks.add_argument("--seconds", type=float, default=130)
    checks.add_argument("--only", default="untouched,idle,busy,memory,shares")
    checks.add_argument("--dir", default=os.path.expanduser("~"))
    checks.set_defaults(run=check)
    burns = commands.add_parser("burn")
    burns.add_argument("kind", choices=["nothing", "idle", "compute", "move"])
    burns.add_argument("seconds", type=float)
    burns.add_argument("duty", type=float, nargs="?", default=1.0)
    burns.set_defaults(run=lambda it: burn(it.kind, it.seconds, it.duty))
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
