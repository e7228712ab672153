/* SPDX-License-Identifier: MIT */
/* Tests the functions that read /proc and /sys. The test creates folders that imitate the /proc and
 * /sys of other machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "src/base/machine.h"
#include "tests/support/folder.h"

static char root[FOLDER_PATH_BYTES];

/* Writes a file into the folder that imitates a machine's root folder. Creates missing parent
 * folders. */
static void
put(const char *name, const char *text)
{
    char path[2 * FOLDER_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        (void)mkdir(path, 0755);
        *at = '/';
    }
    folder_write_file(path, text, strlen(text));
}

static int
begin(void **state)
{
    (void)state;
    folder_make(root);
    return 0;
}

static int
end(void **state)
{
    (void)state;
    folder_remove(root);
    return 0;
}

static void
test_no_files_no_quota(void **state)
{
    (void)state;
    assert_int_equal(ferryi_machine_quota(root), 0);
    assert_int_equal(ferryi_machine_link(root, "0000:01:00.0"), 0);
    put("proc/self/cgroup", "0::/user/app\n");
    assert_int_equal(ferryi_machine_quota(root), 0);
    put("proc/self/cgroup", "nonsense\n");
    assert_int_equal(ferryi_machine_quota(root), 0);
}

/* Checks that the library uses the smallest processor quota of a control group and its parent
 * groups. The quota must be rounded up to whole processors. */
static void
test_quota_of_version_2(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/user/app\n");
    put("sys/fs/cgroup/user/app/cpu.max", "max 100000\n");
    assert_int_equal(ferryi_machine_quota(root), 0);
    put("sys/fs/cgroup/user/app/cpu.max", "800000 100000\n");
    assert_int_equal(ferryi_machine_quota(root), 8);
    put("sys/fs/cgroup/user/cpu.max", "250000 100000\n");
    assert_int_equal(ferryi_machine_quota(root), 3);
    put("sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_int_equal(ferryi_machine_quota(root), 1);
}

/* Checks the processor quota in a container. The container sees its control group at the mount
 * point, but the path of the group names a folder of the host. */
static void
test_quota_of_a_container(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/docker/0123\n");
    put("sys/fs/cgroup/cpu.max", "400000 100000\n");
    assert_int_equal(ferryi_machine_quota(root), 4);
}

static void
test_quota_of_version_1(void **state)
{
    (void)state;
    put("proc/self/cgroup", "5:memory:/box\n3:cpu,cpuacct:/box\n2:cpuset:/box\n0::/\n");
    put("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
    put("sys/fs/cgroup/cpuset/box/cpu.cfs_quota_us", "100000\n");
    assert_int_equal(ferryi_machine_quota(root), 0);
    put("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "610000\n");
    assert_int_equal(ferryi_machine_quota(root), 7);
}

/* Checks the bandwidth of a device's PCIe link: maximum speed times current width. The current
 * speed is too low while the device is idle. The slot may be narrower than the device. */
static void
test_links(void **state)
{
    (void)state;
    put("sys/bus/pci/devices/0000:01:00.0/max_link_speed", "32.0 GT/s PCIe\n");
    put("sys/bus/pci/devices/0000:01:00.0/current_link_speed", "2.5 GT/s PCIe\n");
    put("sys/bus/pci/devices/0000:01:00.0/max_link_width", "16\n");
    put("sys/bus/pci/devices/0000:01:00.0/current_link_width", "16\n");
    assert_in_range(ferryi_machine_link(root, "0000:01:00.0"), 63000000000, 63100000000);
    put("sys/bus/pci/devices/0000:01:00.0/current_link_width", "8\n");
    assert_in_range(ferryi_machine_link(root, "0000:01:00.0"), 31500000000, 31600000000);
    put("sys/bus/pci/devices/0000:01:00.0/max_link_speed", "5.0 GT/s PCIe\n");
    assert_int_equal(ferryi_machine_link(root, "0000:01:00.0"), 4000000000);
    put("sys/bus/pci/devices/0000:01:00.0/max_link_speed", "Unknown\n");
    assert_int_equal(ferryi_machine_link(root, "0000:01:00.0"), 0);
    put("sys/bus/pci/devices/0000:01:00.0/max_link_speed", "32.0 GT/s PCIe\n");
    put("sys/bus/pci/devices/0000:01:00.0/current_link_width",
        "255\n"); /* a link that is down reports the width 255 */
    assert_int_equal(ferryi_machine_link(root, "0000:01:00.0"), 0);
}

static void
assert_processors(const char *list, const char *expected)
{
    char text[256] = "";
    cpu_set_t processors;
    put("sys/devices/system/node/node1/cpulist", list);
    bool known = ferryi_machine_node_processors(root, 1, &processors);
    assert_int_equal(known, expected != NULL);
    if (!known)
        return;
    for (size_t i = 0; i < 8 * sizeof(processors); i++)
        if (CPU_ISSET(i, &processors))
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%zu ", i);
    assert_string_equal(text, expected);
}

/* Checks a NUMA node without processors, such as the memory of a GPU. */
static void
test_nodes(void **state)
{
    cpu_set_t processors;
    (void)state;
    assert_false(ferryi_machine_has_nodes(root));
    assert_int_equal(ferryi_machine_node(root, "0000:01:00.0"), -1);
    assert_false(ferryi_machine_node_processors(root, 1, &processors));
    put("sys/devices/system/node/has_cpu", "0\n");
    assert_false(ferryi_machine_has_nodes(root));
    put("sys/devices/system/node/has_cpu", "0-1\n");
    assert_true(ferryi_machine_has_nodes(root));
    put("sys/devices/system/node/has_cpu", "0,8\n");
    assert_true(ferryi_machine_has_nodes(root));
    put("sys/bus/pci/devices/0000:01:00.0/numa_node", "1\n");
    assert_int_equal(ferryi_machine_node(root, "0000:01:00.0"), 1);
    put("sys/bus/pci/devices/0000:01:00.0/numa_node", "-1\n");
    assert_int_equal(ferryi_machine_node(root, "0000:01:00.0"), -1);
    assert_processors("0-3,8,10-11\n", "0 1 2 3 8 10 11 ");
    assert_processors("1,3,5", "1 3 5 ");
    assert_processors("1023\n", "1023 ");
    assert_processors("1024\n", NULL);
    assert_processors("\n", NULL);
    assert_processors("0-\n", NULL);
    assert_processors("3-1\n", NULL);
    assert_processors("-1\n", NULL);
    assert_processors("1,\n", NULL);
    assert_processors("1x\n", NULL);
}

static void
test_available_memory(void **state)
{
    (void)state;
    assert_int_equal(ferryi_machine_available(root), 0);
    put("proc/meminfo", "MemTotal: 2000 kB\nMemFree: 100 kB\nMemAvailable:    1500 kB\n");
    assert_int_equal(ferryi_machine_available(root), 1500 * 1024);
    put("proc/meminfo", "MemTotal: 2000 kB\nMemAvailable: much\n");
    assert_int_equal(ferryi_machine_available(root), 0);
    put("proc/meminfo", "MemAvailable: 1e300 kB\n");
    assert_int_equal(ferryi_machine_available(root), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_files_no_quota, begin, end),
        cmocka_unit_test_setup_teardown(test_quota_of_version_2, begin, end),
        cmocka_unit_test_setup_teardown(test_quota_of_a_container, begin, end),
        cmocka_unit_test_setup_teardown(test_quota_of_version_1, begin, end),
        cmocka_unit_test_setup_teardown(test_links, begin, end),
        cmocka_unit_test_setup_teardown(test_nodes, begin, end),
        cmocka_unit_test_setup_teardown(test_available_memory, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
