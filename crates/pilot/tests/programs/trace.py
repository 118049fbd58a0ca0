"""Traces a process from outside and never asks for its end.

Usage: trace.py PID OPTIONS. Says `traced` when it does, and goes on until its input ends. The
options are the kernel's; 0x40 stops the process on its way out.
"""
import ctypes
import os
import sys

PTRACE_SEIZE = 0x4206

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
if libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, int(sys.argv[2], 0)) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
print("traced", flush=True)
sys.stdin.read()
