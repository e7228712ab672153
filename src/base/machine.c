/* SPDX-License-Identifier: MIT */
#include "src/base/machine.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/base.h"

#define PATH_BYTES 4096

/* Reads the first line of a file. Returns false if the file does not exist or has no line. */
static bool
read_line(const char *path, char line[256])
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool ok = fgets(line, 256, file) != NULL;
    fclose(file);
    return ok;
}

static bool
read_number(const char *path, double *out)
{
    char line[256], *end;
    if (!read_line(path, line))
        return false;
    *out = strtod(line, &end);
    return end != line;
}

/* -- quotas ------------------------------------------------------------------------------------ */

/* Returns the smaller of two CPU quotas. The value 0 means that there is no quota. */
static double
smaller_quota(double one, double other)
{
    return one > 0 && (other <= 0 || one < other) ? one : other;
}

/* Returns the CPU quota of one control group as a number of processors. Reads it from the file
 * cpu.max of version 2 control groups. Returns 0 if the group has no quota or the file does not
 * exist. */
static double
quota_of_v2(const char *folder)
{
    char path[PATH_BYTES + 16], line[256], *middle, *end;
    snprintf(path, sizeof(path), "%s/cpu.max", folder);
    if (!read_line(path, line))
        return 0;
    double quota = strtod(line, &middle), period = strtod(middle, &end);
    return middle != line && end != middle && quota > 0 && period > 0 ? quota / period : 0;
}

static double
quota_of_v1(const char *folder)
{
    char path[PATH_BYTES + 32];
    double quota, period;
    snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
    if (!read_number(path, &quota) || quota <= 0)
        return 0;
    snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
    return read_number(path, &period) && period > 0 ? quota / period : 0;
}

/* Returns the smallest CPU quota of a control group and its ancestors. `mount` is the mount point
 * of the control group hierarchy. In a container, some folders of the path may be missing. A
 * missing folder counts as a group without a quota. */
static double
least_quota(const char *mount, const char *group, double (*quota_of)(const char *folder))
{
    char folder[PATH_BYTES];
    double least = 0;
    size_t above = strlen(mount);
    if (snprintf(folder, sizeof(folder), "%s%s", mount, group) >= (int)sizeof(folder))
        return 0;
    for (;;) {
        least = smaller_quota(quota_of(folder), least);
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < above)
            return least;
        *slash = 0;
    }
}

/* Returns whether `controllers` contains "cpu". `controllers` is a comma-separated list of control
 * group controllers, from a version 1 hierarchy. */
static bool
has_cpu(const char *controllers)
{
    for (const char *at = controllers; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || at[3] == 0))
            return true;
    return false;
}

/* Returns the CPU quota of the control group that one line of /proc/self/cgroup names. A line
 * consists of a number, a list of controllers and a path, separated by colons. */
static double
quota_by_line(const char *root, char *line)
{
    char mount[PATH_BYTES];
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return 0;
    *group++ = 0;
    controllers++;
    bool is_v2 = controllers[0] == 0;
    if (!is_v2 && !has_cpu(controllers))
        return 0;
    snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup%s%s", root, is_v2 ? "" : "/", controllers);
    return least_quota(mount, group, is_v2 ? quota_of_v2 : quota_of_v1);
}

unsigned
ferryi_machine_quota(const char *root)
{
    char path[PATH_BYTES], line[PATH_BYTES];
    double least = 0;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        least = smaller_quota(quota_by_line(root, line), least);
    if (file)
        fclose(file);
    if (least >= UINT_MAX)
        return 0;
    unsigned whole = (unsigned)least;
    return whole + (least > whole);
}

/* -- jobs -------------------------------------------------------------------------------------- */

const char *
ferryi_machine_rank(bool of_mpi)
{
    /* A launcher that runs inside another one sets the earlier variables. Slurm sets the last one
     * also for the script of a batch job. */
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",   "PMI_RANK",
                                            "MV2_COMM_WORLD_RANK",  "PALS_RANKID", "SLURM_PROCID"};
    size_t count = sizeof(variables) / sizeof(variables[0]) - of_mpi;
    for (size_t i = 0; i < count; i++) {
        const char *rank = ferryi_getenv(variables[i]);
        if (rank && *rank && strlen(rank) < 16 && strspn(rank, "0123456789") == strlen(rank))
            return rank;
    }
    return NULL;
}

bool
ferryi_machine_is_unbound(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof(allowed), &allowed) != 0 ||
           CPU_COUNT(&allowed) >= (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* -- links ------------------------------------------------------------------------------------- */

static double
link_number(const char *root, const char *address, const char *name)
{
    char path[PATH_BYTES];
    double number;
    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/%s", root, address, name);
    return read_number(path, &number) && number > 0 ? number : 0;
}

/* Returns the bandwidth of a PCI link. Links of 2.5 and 5 GT/s encode 8 bits in 10, faster links
 * encode 128 bits in 130. The function uses the current width, because the slot may be narrower
 * than the device. It uses the maximum speed, because an idle link lowers its current speed. */
uint64_t
ferryi_machine_link(const char *root, const char *address)
{
    double transfers = link_number(root, address, "max_link_speed") * 1e9;
    double width = link_number(root, address, "current_link_width");
    double code = transfers > 5e9 ? 128.0 / 130 : 0.8;
    return width > 64 ? 0 : (uint64_t)(transfers * code / 8 * width);
}

/* -- NUMA nodes -------------------------------------------------------------------------------- */

/* Parses a list such as "0-3,8,10-11". Returns false if the list is malformed or contains a number
 * that is too large. */
static bool
parse_list(const char *text, cpu_set_t *out)
{
    CPU_ZERO(out);
    for (;;) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (end == text)
            return false;
        if (*end == '-') {
            text = end + 1;
            last = strtol(text, &end, 10);
            if (end == text)
                return false;
        }
        /* musl's CPU_SETSIZE is the number of bytes. */
        if (first < 0 || last < first || last >= (long)(8 * sizeof(*out)))
            return false;
        for (long i = first; i <= last; i++)
            CPU_SET((size_t)i, out);
        if (*end != ',')
            return *end == 0 || *end == '\n';
        text = end + 1;
    }
}

static bool
read_list(const char *path, cpu_set_t *out)
{
    char line[PATH_BYTES]; /* A file in /sys contains at most one page of text. */
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool ok = fgets(line, sizeof(line), file) && parse_list(line, out);
    fclose(file);
    return ok;
}

bool
ferryi_machine_has_nodes(const char *root)
{
    char path[PATH_BYTES];
    cpu_set_t nodes;
    snprintf(path, sizeof(path), "%s/sys/devices/system/node/has_cpu", root);
    return read_list(path, &nodes) && CPU_COUNT(&nodes) > 1;
}

int
ferryi_machine_node(const char *root, const char *address)
{
    char path[PATH_BYTES];
    double node;
    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/numa_node", root, address);
    return read_number(path, &node) && node >= 0 && node < INT_MAX ? (int)node : -1;
}

bool
ferryi_machine_node_processors(const char *root, int node, cpu_set_t *out)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/sys/devices/system/node/node%d/cpulist", root, node);
    return read_list(path, out);
}

/* -- memory ------------------------------------------------------------------------------------ */

uint64_t
ferryi_machine_available(const char *root)
{
    static const char key[] = "MemAvailable:";
    char path[PATH_BYTES], line[256], *end;
    double kibibytes = 0;
    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, key, sizeof(key) - 1) == 0)
            kibibytes = strtod(line + sizeof(key) - 1, &end);
    if (file)
        fclose(file);
    return kibibytes > 0 && kibibytes < 0x1p53 ? (uint64_t)kibibytes * 1024 : 0;
}
