/* An imitation of NVML with one GPU, so that a broken driver, and what tasks use, can be shown where
   there is none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
/* Who has how much is read from the file that IMITATE_USES names: a process, its bytes and its part
   of the time in per cent a line. */
static FILE *uses(void) {
    const char *path = getenv("IMITATE_USES");
    return path ? fopen(path, "r") : 0;
}
static int next(FILE *file, unsigned *pid, unsigned long long *bytes, unsigned *percent) {
    char line[128];
    *percent = 0;
    return file && fgets(line, sizeof line, file) && sscanf(line, "%u %llu %u", pid, bytes, percent) >= 2;
}
int nvmlDeviceGetMemoryInfo_v2(void *device, Memory *memory) {
    unsigned pid, percent;
    unsigned long long bytes;
    FILE *file = uses();
    memory->total = 8000000000ull;
    memory->used = 0;
    while (next(file, &pid, &bytes, &percent))
        memory->used += bytes;
    if (file)
        fclose(file);
    return 0;
}
/* What the device does is read from the file that IMITATE_GPU names: how busy it and its memory are
   in per cent, milliwatts, degrees, and why its clocks are held back. */
typedef struct { unsigned busy, memory, power, heat; unsigned long long throttle; } Now;
static int now(Now *now) {
    const char *path = getenv("IMITATE_GPU");
    FILE *file = path ? fopen(path, "r") : 0;
    int found = 0;
    if (!file)
        return 0;
    found = fscanf(file, "%u %u %u %u %llu", &now->busy, &now->memory, &now->power, &now->heat,
                   &now->throttle);
    fclose(file);
    return found == 5;
}
enum { NOT_SUPPORTED = 3, NOT_FOUND = 6 };
typedef struct { unsigned gpu, memory; } Rates;
int nvmlDeviceGetUtilizationRates(void *device, Rates *rates) {
    Now is;
    if (!now(&is))
        return NOT_SUPPORTED;
    *rates = (Rates){is.busy, is.memory};
    return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    Now is;
    if (!now(&is))
        return NOT_SUPPORTED;
    *milliwatts = is.power;
    return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    struct timespec at;
    Now is;
    if (!now(&is))
        return NOT_SUPPORTED;
    clock_gettime(CLOCK_MONOTONIC, &at);
    *millijoules = (at.tv_sec * 1000ull + at.tv_nsec / 1000000) * is.power / 1000;
    return 0;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) {
    Now is;
    if (!now(&is))
        return NOT_SUPPORTED;
    *degrees = is.heat;
    return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    Now is;
    if (!now(&is))
        return NOT_SUPPORTED;
    *reasons = is.throttle;
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *count) {
    *count = 0;
    return 0;
}
typedef struct {
    unsigned pid;
    unsigned long long at;
    unsigned sm, memory, encoder, decoder;
} Part;
int nvmlDeviceGetProcessUtilization(void *device, Part *parts, unsigned *count,
                                    unsigned long long since) {
    unsigned room = parts ? *count : 0, pid, percent;
    unsigned long long bytes;
    FILE *file = uses();
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    *count = 0;
    while (next(file, &pid, &bytes, &percent)) {
        if (*count < room)
            parts[*count] = (Part){pid, at.tv_sec * 1000000ull + at.tv_nsec / 1000, percent};
        ++*count;
    }
    if (file)
        fclose(file);
    return !*count ? NOT_FOUND : *count > room ? 7 : 0;
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
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *found) {
    FILE *file = uses();
    unsigned room = found ? *count : 0, pid, percent;
    unsigned long long bytes;
    *count = 0;
    while (next(file, &pid, &bytes, &percent)) {
        if (*count < room)
            found[*count] = (Process){pid, bytes, 0xFFFFFFFF, 0xFFFFFFFF};
        ++*count;
    }
    if (file)
        fclose(file);
    return *count > room ? 7 : 0;
}
const char *nvmlErrorString(int error) { return "imitated"; }
