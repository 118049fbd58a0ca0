/* Loaded in front of the C library by tests/journal/faults.rs: fsync and fdatasync fail with EIO
   while the file named by FAIL_SYNC_WHILE exists, and do not return while the one named by
   HANG_SYNC_WHILE does. Not a disk: what was written stays readable, as it does in the page cache
   of a kernel whose disk failed or hangs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int sync_or_fail(const char *name, int fd) {
    const char *flag = getenv("FAIL_SYNC_WHILE");
    if (flag != NULL && access(flag, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    const char *hang = getenv("HANG_SYNC_WHILE");
    while (hang != NULL && access(hang, F_OK) == 0) {
        usleep(10000);
    }
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return real(fd);
}

int fsync(int fd) { return sync_or_fail("fsync", fd); }

int fdatasync(int fd) { return sync_or_fail("fdatasync", fd); }
