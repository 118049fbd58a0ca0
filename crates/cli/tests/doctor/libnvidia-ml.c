/* An imitation of NVML with one GPU, so that a broken driver can be shown where there is none. */
#include <string.h>

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;

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
/* Its file in /dev would have a number that no machine has. */
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) { return 3; }
const char *nvmlErrorString(int error) { return "imitated"; }
