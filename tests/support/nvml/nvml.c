/* A fake NVML: the GPUs are in a text file, $FAKE_NVML, which is read for each call.
 *
 * Lines, fields separated by tabs (`error` is a code of NVML, 0 for none):
 *   driver   error  hangs
 *   gpu      uuid  name  domain:bus:device  memory_mib  used_mib  busy_percent  ecc_errors  error  is_mig
 *   instance uuid  memory_mib  used_mib  slices         (of the gpu above)
 *   process  pid  mib                                    (on the gpu or instance above)
 *   xid      uuid  number                                (an error; each line is reported once)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, NO_PERMISSION, ALREADY, NOT_FOUND, TOO_SMALL };
enum { MOST = 64, TEXT = 96 };

typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
} Process;

typedef struct {
    char uuid[TEXT], name[TEXT];
    unsigned domain, bus, device, memory, used, busy, ecc, error, is_mig, slices;
    int parent; /* -1: a whole GPU */
    Process processes[MOST];
    unsigned process_count;
} Device;

typedef struct {
    char uuid[TEXT];
    unsigned xid;
} Event;

typedef struct {
    unsigned error, hangs;
    int count, event_count;
    Device devices[MOST];
    Event events[MOST];
} State;

typedef char *Handle; /* a UUID, which outlives any order of the file */

static char known[4096][TEXT];
static int is_open;

static void read_state(State *state) {
    char line[512];
    memset(state, 0, sizeof *state);
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    if (!file) {
        state->error = 9;
        return;
    }
    int gpu = -1;
    while (fgets(line, sizeof line, file)) {
        Event *event = &state->events[state->event_count];
        if (sscanf(line, "xid\t%95[^\t]\t%u", event->uuid, &event->xid) == 2) {
            state->event_count++;
            continue;
        }
        Device *next = &state->devices[state->count], *last = next - 1;
        if (sscanf(line, "driver\t%u\t%u", &state->error, &state->hangs) == 2)
            continue;
        if (sscanf(line, "gpu\t%95[^\t]\t%95[^\t]\t%x:%x:%x\t%u\t%u\t%u\t%u\t%u\t%u", next->uuid, next->name,
                   &next->domain, &next->bus, &next->device, &next->memory, &next->used, &next->busy,
                   &next->ecc, &next->error, &next->is_mig) == 11) {
            next->parent = -1;
            gpu = state->count++;
        } else if (sscanf(line, "instance\t%95[^\t]\t%u\t%u\t%u", next->uuid, &next->memory, &next->used,
                          &next->slices) == 4) {
            next->parent = gpu;
            state->count++;
        } else {
            Process *process = &last->processes[last->process_count];
            if (sscanf(line, "process\t%u\t%llu", &process->pid, &process->memory) == 2) {
                process->memory <<= 20;
                last->process_count++;
            }
        }
    }
    fclose(file);
}

static unsigned begin(State *state) {
    read_state(state);
    while (state->hangs) {
        usleep(20000);
        read_state(state);
    }
    return state->error;
}

static unsigned enter(State *state) {
    unsigned error = begin(state);
    return error ? error : is_open ? OK : UNINITIALIZED;
}

static Handle handle_of(const Device *device) {
    int i = 0;
    while (known[i][0] && strcmp(known[i], device->uuid))
        i++;
    return strcpy(known[i], device->uuid);
}

static unsigned find(State *state, Handle handle, Device **found) {
    unsigned error = enter(state);
    if (error)
        return error;
    for (int i = 0; i < state->count; i++) {
        Device *device = *found = &state->devices[i];
        if (!strcmp(device->uuid, handle))
            return device->parent < 0 ? device->error : state->devices[device->parent].error;
    }
    return NOT_FOUND;
}

static unsigned find_nth(State *state, int parent, unsigned index, Handle *handle) {
    for (int i = 0; i < state->count; i++) {
        if (state->devices[i].parent == parent && index-- == 0) {
            *handle = handle_of(&state->devices[i]);
            return state->devices[i].error;
        }
    }
    return NOT_FOUND;
}

#define FIND(handle)                                    \
    State state;                                        \
    Device *device = 0;                                 \
    unsigned error = find(&state, (handle), &device);   \
    if (error)                                          \
        return error

unsigned nvmlInitWithFlags(unsigned flags) {
    State state;
    unsigned error = begin(&state);
    (void)flags;
    is_open = !error;
    return error;
}

unsigned nvmlShutdown(void) {
    is_open = 0;
    return OK;
}

const char *nvmlErrorString(unsigned error) {
    static char text[32];
    snprintf(text, sizeof text, "Error %u", error);
    return text;
}

unsigned nvmlDeviceGetCount_v2(unsigned *count) {
    State state;
    unsigned error = enter(&state);
    *count = 0;
    for (int i = 0; i < state.count; i++)
        *count += state.devices[i].parent < 0;
    return error;
}

unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *handle) {
    State state;
    unsigned error = enter(&state);
    return error ? error : find_nth(&state, -1, index, handle);
}

unsigned nvmlDeviceGetHandleByUUID(const char *uuid, Handle *handle) {
    FIND((Handle)uuid);
    *handle = handle_of(device);
    return OK;
}

unsigned nvmlDeviceGetName(Handle handle, char *name, unsigned length) {
    FIND(handle);
    snprintf(name, length, "%s", device->name);
    return OK;
}

unsigned nvmlDeviceGetUUID(Handle handle, char *uuid, unsigned length) {
    FIND(handle);
    snprintf(uuid, length, "%s", device->uuid);
    return OK;
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} Pci;

unsigned nvmlDeviceGetPciInfo_v3(Handle handle, Pci *pci) {
    FIND(handle);
    memset(pci, 0, sizeof *pci);
    pci->domain = device->domain, pci->bus = device->bus, pci->device = device->device;
    snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return OK;
}

unsigned nvmlDeviceGetMemoryInfo(Handle handle, unsigned long long *total_free_used) {
    FIND(handle);
    total_free_used[0] = (unsigned long long)device->memory << 20;
    total_free_used[1] = (unsigned long long)(device->memory - device->used) << 20;
    total_free_used[2] = (unsigned long long)device->used << 20;
    return OK;
}

unsigned nvmlDeviceGetUtilizationRates(Handle handle, unsigned *gpu_memory) {
    FIND(handle);
    if (device->parent >= 0 || device->is_mig)
        return NOT_SUPPORTED;
    gpu_memory[0] = gpu_memory[1] = device->busy;
    return OK;
}

unsigned nvmlDeviceGetTotalEccErrors(Handle handle, unsigned kind, unsigned counter, unsigned long long *count) {
    FIND(handle);
    (void)kind, (void)counter;
    *count = device->ecc;
    return device->parent < 0 ? OK : NOT_SUPPORTED;
}

unsigned nvmlDeviceGetComputeRunningProcesses_v3(Handle handle, unsigned *count, Process *processes) {
    FIND(handle);
    unsigned room = *count;
    *count = device->process_count;
    if (room < device->process_count)
        return TOO_SMALL;
    if (processes)
        memcpy(processes, device->processes, device->process_count * sizeof *processes);
    return OK;
}

unsigned nvmlDeviceGetMigMode(Handle handle, unsigned *current, unsigned *pending) {
    FIND(handle);
    *current = *pending = device->is_mig;
    return OK;
}

unsigned nvmlDeviceGetMaxMigDeviceCount(Handle handle, unsigned *count) {
    FIND(handle);
    *count = 7;
    return OK;
}

unsigned nvmlDeviceGetMigDeviceHandleByIndex(Handle handle, unsigned index, Handle *instance) {
    FIND(handle);
    return find_nth(&state, (int)(device - state.devices), index, instance);
}

unsigned nvmlDeviceIsMigDeviceHandle(Handle handle, unsigned *is_instance) {
    FIND(handle);
    *is_instance = device->parent >= 0;
    return OK;
}

unsigned nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle handle, Handle *whole) {
    FIND(handle);
    if (device->parent < 0)
        return INVALID;
    *whole = handle_of(&state.devices[device->parent]);
    return OK;
}

typedef struct {
    unsigned multiprocessors, shared[5], gpu_slices, compute_slices;
    unsigned long long memory_mib;
} Attributes;

unsigned nvmlDeviceGetAttributes_v2(Handle handle, Attributes *attributes) {
    FIND(handle);
    memset(attributes, 0, sizeof *attributes);
    attributes->gpu_slices = attributes->compute_slices = device->slices;
    attributes->memory_mib = device->memory;
    return OK;
}

static Handle watched[MOST];
static int told = -1; /* how many events; -1: nobody has asked yet */

unsigned nvmlEventSetCreate(void **set) {
    State state;
    unsigned error = enter(&state);
    memset(watched, 0, sizeof watched);
    if (told < 0)
        told = state.event_count;
    *set = watched;
    return error;
}

unsigned nvmlDeviceRegisterEvents(Handle handle, unsigned long long kinds, void *set) {
    FIND(handle);
    if (device->parent >= 0 || kinds != 8 || set != watched)
        return INVALID;
    int i = 0;
    while (watched[i] && watched[i] != handle)
        i++;
    watched[i] = handle;
    return OK;
}

typedef struct {
    Handle device;
    unsigned long long kind, data;
    unsigned gpu_instance, compute_instance;
} EventData;

unsigned nvmlEventSetWait_v2(void *set, EventData *data, unsigned timeout_ms) {
    State state;
    unsigned error = enter(&state);
    if (error || set != watched || timeout_ms)
        return error ? error : INVALID;
    while (told < state.event_count) {
        Event *event = &state.events[told++];
        for (int i = 0; watched[i]; i++) {
            if (strcmp(watched[i], event->uuid))
                continue;
            memset(data, 0, sizeof *data);
            data->device = watched[i], data->kind = 8, data->data = event->xid;
            return OK;
        }
    }
    return 10; /* timeout */
}
