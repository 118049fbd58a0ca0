"""Has a lease on a file until somebody else wants to open it, and gives it back then."""

import fcntl
import signal
import sys

with open(sys.argv[1], "r+b") as held:
    # Told of by a signal that ends nobody.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    print("leased", flush=True)
    signal.sigwait([signal.SIGIO])
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)
