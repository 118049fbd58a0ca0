/* An imitation of NVML with one GPU, so that a broken driver can be shown where there is none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu, compute; } Process;

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    strncpy(text, "570.1.2", length);
    return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12080; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)1;
    return index ? 2 : 0;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {
    strncpy(text, "GPU-imitated", length);
    return 0;
}
int nvmlDeviceGetName(void *device, char *text, unsigned length) {
    strncpy(text, "Imitation", length);
    return 0;
}
int nvmlDeviceGetMemoryInfo_v2(void *device, Memory *memory) {
    memory->total = 8000000000ull;
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    *major = 9;
    *minor = 0;
    return 0;
}
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later) { return 3; }
/* It has no file in /dev that a container could be given. */
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) { return 3; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    *device = (void *)1;
    return strcmp(uuid, "GPU-imitated") ? 6 : 0;
}
/* Who has how much is read from the file that IMITATE_USES names: a process and bytes a line. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *found) {
    const char *path = getenv("IMITATE_USES");
    FILE *file = path ? fopen(path, "r") : 0;
    unsigned room = found ? *count : 0, pid;
    unsigned long long bytes;
    *count = 0;
    while (file && fscanf(file, "%u %llu", &pid, &bytes) == 2) {
        if (*count < room)
            found[*count] = (Process){pid, bytes, 0xFFFFFFFF, 0xFFFFFFFF};
        ++*count;
    }
    if (file)
        fclose(file);
    return *count > room ? 7 : 0;
}
const char *nvmlErrorString(int error) { return "imitated"; }
