/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

#include <dlfcn.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/ferry.h>

#include "cli/json.h"
#include "cli/output.h"

/* Rises when a member of the JSON output changes its meaning or goes. */
enum { INFO_SCHEMA = 1, PLACES_MAX = 16, DEVICES_MAX = 15, VENDOR_COUNT = 2 };

static const char usage_text[] =
    "usage: ferry info [-j] [-d DEVICES] [-o FILE]\n\n"
    "Prints versions and, for every place where a buffer can have a replica, what it is, its "
    "memory and what it can do.\n\n"
    "  -d, --device DEVICES  a list such as host, emulated:2, opencl, hip or cuda:0,cuda:1;\n"
    "                        default: FERRY_DEVICE, else every CUDA device, else host\n"
    "  -j, --json            as JSON\n"
    "  -o, --output FILE     write to FILE\n"
    "  -h, --help            this text\n";

struct request {
    const char *devices; /* NULL: choose */
    const char *output;  /* NULL: standard output */
    bool json;
};

/* What the command prints. Strings belong to the context. */
struct report {
    const char *devices;                           /* the list that was opened */
    char chosen[DEVICES_MAX * sizeof("cuda:00,")]; /* its text when it was chosen here */
    struct vendor {
        const char *kind, *title;
        bool has_place; /* is one of the places a device of this kind? */
        bool was_tried;
        char why_none[512];
    } vendors[VENDOR_COUNT];
    const char *kernel_cache; /* the folder of compiled kernels; NULL: none */
    char kernel_cache_text[4096];
    bool cufile; /* was the library of GPUDirect Storage found? */
    char why_no_cufile[512];
    int place_count;
    ferry_place_info places[PLACES_MAX];
    ferry_memory_info memory[PLACES_MAX];
};

static const struct capability {
    uint64_t bit;
    const char *name;
} capability_names[] = {
    {FERRY_CAN_PIN, "pin"},
    {FERRY_CAN_MANAGE, "manage"},
    {FERRY_CAN_MANAGE_CONCURRENTLY, "manage-concurrently"},
    {FERRY_CAN_LOAD_CODE, "load-code"},
    {FERRY_CAN_COMPILE, "compile"},
    {FERRY_CAN_RUN_HOST_FUNCTION, "run-host-function"},
    {FERRY_CAN_BATCH, "batch"},
    {FERRY_CAN_PEER, "peer"},
    {FERRY_CAN_CAPTURE, "capture"},
    {FERRY_CAN_COOPERATE, "cooperate"},
    {FERRY_CAN_CLUSTER, "cluster"},
    {FERRY_CAN_OVERLAP, "overlap"},
    {FERRY_CAN_SHARE, "share"},
};

enum { CAPABILITY_COUNT = sizeof(capability_names) / sizeof(capability_names[0]) };

/* Returns whether this list can be opened; if not, ferry_last_error() says why. */
static bool
can_open(const char *devices)
{
    ferry_context *context = NULL;
    ferry_context_options options = {.devices = devices};

    if (ferry_context_create(&options, &context) != FERRY_OK)
        return false;
    ferry_context_destroy(&context);
    return true;
}

/* Chooses all devices of a kind. Returns false, and keeps the reason, if there is none. */
static bool
choose_all(struct report *report, struct vendor *vendor)
{
    size_t length = 0;

    vendor->was_tried = true;
    for (int ordinal = 0; ordinal < DEVICES_MAX; ordinal++) {
        char one[16];
        snprintf(one, sizeof(one), "%s:%d", vendor->kind, ordinal);
        if (!can_open(one))
            break;
        length += (size_t)snprintf(report->chosen + length, sizeof(report->chosen) - length, "%s%s",
                                   length ? "," : "", one);
    }
    if (length == 0)
        snprintf(vendor->why_none, sizeof(vendor->why_none), "%s", ferry_last_error());
    return length > 0;
}

/* Chooses all devices of the first kind that has one, or the host. */
static void
choose_devices(struct report *report)
{
    int i = 0;

    while (i < VENDOR_COUNT && !choose_all(report, &report->vendors[i]))
        i++;
    if (i == VENDOR_COUNT)
        snprintf(report->chosen, sizeof(report->chosen), "host");
    report->devices = report->chosen;
}

/* Whether files pass by it is known only when one is opened. */
static void
look_for_cufile(struct report *report)
{
    const char *name = getenv("FERRY_CUFILE_LIBRARY");
    void *library = dlopen(name && *name ? name : "libcufile.so.0", RTLD_LAZY | RTLD_LOCAL);

    report->cufile = library && dlsym(library, "cuFileRead");
    if (!report->cufile) {
        const char *why = dlerror();
        snprintf(report->why_no_cufile, sizeof(report->why_no_cufile), "%s",
                 why ? why : "libcufile.so.0: no cuFileRead");
    }
    /* Not closed: its threads would not survive that. */
    /* cppcheck-suppress resourceLeak */
}

static void
look_for_kernel_cache(struct report *report)
{
    bool used = ferry_kernel_cache_path(report->kernel_cache_text,
                                        sizeof(report->kernel_cache_text)) == FERRY_OK;

    if (used)
        report->kernel_cache = report->kernel_cache_text;
    else
        snprintf(report->kernel_cache_text, sizeof(report->kernel_cache_text), "%s",
                 ferry_last_error());
}

static ferry_status
gather(ferry_context *context, struct report *report)
{
    ferry_status status = FERRY_OK;

    report->place_count = ferry_context_place_count(context) + 1;
    for (int place = 0; place < report->place_count; place++) {
        FERRY_TRY(status, fail,
                  ferry_context_get_place_info(context, place, &report->places[place]));
        FERRY_TRY(status, fail,
                  ferry_context_get_memory_info(context, place, &report->memory[place]));
        for (int i = 0; i < VENDOR_COUNT; i++)
            report->vendors[i].has_place |=
                strcmp(report->places[place].kind, report->vendors[i].kind) == 0;
    }
fail:
    return status;
}

/* -- the tables -------------------------------------------------------------------------------- */

/* At most this many characters of a cell are printed. */
enum { CELL = 64 };

/* Text of one cell. Names of devices come from drivers. */
struct cell {
    char text[CELL];
};

enum { PLACE_COLUMNS = 8 };

static const char *const place_titles[PLACE_COLUMNS] = {"Place",  "Kind", "Number", "Name",
                                                        "Memory", "Free", "Driver", "Capability"};
/* Numbers end at the right edge of their column. */
static const bool place_right[PLACE_COLUMNS] = {true, false, true, false, true, true, true, true};

static struct cell
cell_of_version(bool known, int major, int minor)
{
    struct cell cell = {"-"};
    if (known)
        snprintf(cell.text, sizeof(cell.text), "%d.%d", major, minor);
    return cell;
}

static struct cell
cell_of_bytes(size_t bytes)
{
    struct cell cell;
    snprintf(cell.text, sizeof(cell.text), "%.0f MiB", (double)bytes / 1048576.0);
    return cell;
}

static struct cell
cell_of_number(int number)
{
    struct cell cell;
    snprintf(cell.text, sizeof(cell.text), "%d", number);
    return cell;
}

static struct cell
cell_of_text(const char *text)
{
    struct cell cell;
    snprintf(cell.text, sizeof(cell.text), "%s", text);
    return cell;
}

static void
fill_place(const struct report *report, int place, struct cell out[PLACE_COLUMNS])
{
    const ferry_place_info *info = &report->places[place];

    out[0] = cell_of_number(place);
    out[1] = cell_of_text(info->kind);
    out[2] = cell_of_number(info->native);
    out[3] = cell_of_text(info->name);
    out[4] = cell_of_bytes(report->memory[place].total);
    out[5] = cell_of_bytes(report->memory[place].free);
    out[6] = cell_of_version(info->driver_version, info->driver_version / 1000,
                             info->driver_version % 1000 / 10);
    out[7] = cell_of_version(info->architecture, info->architecture / 10, info->architecture % 10);
}

/* The last column is not filled up with spaces. */
static void
print_cell(FILE *file, const char *text, int width, bool right, bool last)
{
    int fill = width - (int)strlen(text);

    fprintf(file, "  %*s", right && fill > 0 ? fill : 0, "");
    output_text(file, text);
    if (!right && !last)
        fprintf(file, "%*s", fill > 0 ? fill : 0, "");
}

static void
print_places(FILE *file, const struct report *report)
{
    struct cell cells[PLACES_MAX][PLACE_COLUMNS];
    int widths[PLACE_COLUMNS];

    for (int place = 0; place < report->place_count; place++)
        fill_place(report, place, cells[place]);
    for (int column = 0; column < PLACE_COLUMNS; column++) {
        widths[column] = (int)strlen(place_titles[column]);
        for (int place = 0; place < report->place_count; place++)
            if ((int)strlen(cells[place][column].text) > widths[column])
                widths[column] = (int)strlen(cells[place][column].text);
    }
    fputc('\n', file);
    for (int column = 0; column < PLACE_COLUMNS; column++)
        print_cell(file, place_titles[column], widths[column], place_right[column],
                   column + 1 == PLACE_COLUMNS);
    for (int place = 0; place < report->place_count; place++) {
        fputc('\n', file);
        for (int column = 0; column < PLACE_COLUMNS; column++)
            print_cell(file, cells[place][column].text, widths[column], place_right[column],
                       column + 1 == PLACE_COLUMNS);
    }
    fputc('\n', file);
}

static void
print_answer(FILE *file, const char *question, const struct report *report,
             bool (*answer)(const ferry_place_info *info, uint64_t bit), uint64_t bit)
{
    fprintf(file, "  %-28s", question);
    for (int place = 0; place < report->place_count; place++)
        fprintf(file, "  %3s", answer(&report->places[place], bit) ? "yes" : "-");
    fputc('\n', file);
}

static bool
has_capability(const ferry_place_info *info, uint64_t bit)
{
    return info->capabilities & bit;
}

static bool
shares_memory(const ferry_place_info *info, uint64_t bit)
{
    (void)bit;
    return info->coherent;
}

static void
print_capabilities(FILE *file, const struct report *report)
{
    fprintf(file, "\n  %-28s", "At place");
    for (int place = 0; place < report->place_count; place++)
        fprintf(file, "  %3d", place);
    fputc('\n', file);
    print_answer(file, "shares the host's memory", report, shares_memory, 0);
    for (size_t i = 0; i < CAPABILITY_COUNT; i++)
        print_answer(file, capability_names[i].name, report, has_capability,
                     capability_names[i].bit);
}

static void
print_line(FILE *file, const char *name, const char *prefix, const char *text)
{
    fprintf(file, "%-14s%s", name, prefix);
    output_text(file, text);
    fputc('\n', file);
}

static void
print_text(FILE *file, const struct report *report)
{
    char versions[128];

    snprintf(versions, sizeof(versions), "%s, headers %s", ferry_version(), FERRY_VERSION);
    print_line(file, "Ferry", "", versions);
    print_line(file, "Devices", "", report->devices);
    for (int i = 0; i < VENDOR_COUNT; i++)
        if (report->vendors[i].was_tried && !report->vendors[i].has_place)
            print_line(file, report->vendors[i].title, "none: ", report->vendors[i].why_none);
    if (report->cufile)
        print_line(file, "cuFile", "",
                   "found: loads and stores with file_direct use it where it can");
    else
        print_line(file, "cuFile", "none: ", report->why_no_cufile);
    print_line(file, "Kernel cache",
               report->kernel_cache ? "" : "none: ", report->kernel_cache_text);
    print_places(file, report);
    print_capabilities(file, report);
}

/* -- JSON -------------------------------------------------------------------------------------- */

/* A version or architecture that a place does not have is null, never 0. */
static void
json_number_or_null(struct json *json, const char *name, int value)
{
    if (value)
        json_number(json, name, (uint64_t)value);
    else
        json_null(json, name);
}

static void
write_place(struct json *json, int place, const ferry_place_info *info,
            const ferry_memory_info *memory)
{
    json_open(json, NULL, '{');
    json_number(json, "place", (uint64_t)place);
    json_string(json, "kind", info->kind);
    json_string(json, "name", info->name);
    json_number(json, "native", (uint64_t)info->native);
    json_bool(json, "coherent", info->coherent);
    json_number_or_null(json, "architecture", info->architecture);
    json_number_or_null(json, "driver_version", info->driver_version);
    json_string(json, "target", *info->target ? info->target : NULL);
    json_number(json, "capability_bits", info->capabilities);
    json_open(json, "capabilities", '[');
    for (size_t i = 0; i < CAPABILITY_COUNT; i++) {
        if (info->capabilities & capability_names[i].bit)
            json_string(json, NULL, capability_names[i].name);
    }
    json_close(json, ']');
    json_open(json, "memory", '{');
    json_number(json, "total_bytes", memory->total);
    json_number(json, "free_bytes", memory->free);
    json_number(json, "used_bytes", memory->used);
    json_close(json, '}');
    json_close(json, '}');
}

static void
write_json(FILE *file, const struct report *report)
{
    struct json json = {.file = file};

    json_open(&json, NULL, '{');
    json_string(&json, "command", "info");
    json_number(&json, "schema", INFO_SCHEMA);
    json_string(&json, "version", ferry_version());
    json_string(&json, "header_version", FERRY_VERSION);
    json_string(&json, "devices", report->devices);
    for (int i = 0; i < VENDOR_COUNT; i++) {
        const struct vendor *vendor = &report->vendors[i];
        char why[24];
        snprintf(why, sizeof(why), "why_no_%s", vendor->kind);
        json_bool(&json, vendor->kind, vendor->has_place);
        json_string(&json, why, vendor->was_tried && !vendor->has_place ? vendor->why_none : NULL);
    }
    json_bool(&json, "cufile", report->cufile);
    json_string(&json, "why_no_cufile", report->cufile ? NULL : report->why_no_cufile);
    json_string(&json, "kernel_cache", report->kernel_cache);
    json_string(&json, "why_no_kernel_cache",
                report->kernel_cache ? NULL : report->kernel_cache_text);
    json_open(&json, "places", '[');
    for (int place = 0; place < report->place_count; place++)
        write_place(&json, place, &report->places[place], &report->memory[place]);
    json_close(&json, ']');
    json_close(&json, '}');
}

static int
write_report(const struct request *request, const struct report *report)
{
    FILE *file = output_open("info", request->output);

    if (!file)
        return EXIT_FAILED;
    if (request->json)
        write_json(file, report);
    else
        print_text(file, report);
    return output_close("info", request->output, file) ? EXIT_WELL : EXIT_FAILED;
}

/* EXIT_WELL to go on; -1 when the help was printed. */
static int
read_arguments(int argc, char **argv, struct request *out)
{
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},
        {"json", no_argument, NULL, 'j'},
        {"output", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };

    for (int option; (option = getopt_long(argc, argv, "d:jo:h", options, NULL)) != -1;) {
        switch (option) {
        case 'd':
            out->devices = optarg;
            break;
        case 'j':
            out->json = true;
            break;
        case 'o':
            out->output = optarg;
            break;
        case 'h':
            fputs(usage_text, stdout);
            return -1;
        default:
            fputs(usage_text, stderr);
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "ferry info: unexpected argument '%s'\n%s", argv[optind], usage_text);
        return EXIT_USAGE;
    }
    return EXIT_WELL;
}

int
command_info(int argc, char **argv)
{
    struct request request = {0};
    struct report report = {
        .vendors = {{"cuda", "CUDA", false, false, ""}, {"hip", "HIP", false, false, ""}}};
    ferry_context *context = NULL;
    ferry_status status = FERRY_OK;
    int result = read_arguments(argc, argv, &request);

    if (result != EXIT_WELL)
        return result < 0 ? EXIT_WELL : result;

    const char *environment = getenv("FERRY_DEVICE");
    if (!request.devices && environment && *environment)
        request.devices = environment;
    report.devices = request.devices;
    if (!report.devices)
        choose_devices(&report);

    ferry_context_options options = {.devices = report.devices};
    FERRY_TRY(status, fail, ferry_context_create(&options, &context));
    FERRY_TRY(status, fail, gather(context, &report));
    look_for_cufile(&report);
    look_for_kernel_cache(&report);
    result = write_report(&request, &report);
    ferry_context_destroy(&context);
    return result;

fail:
    fprintf(stderr, "ferry info: %s: %s\n", ferry_status_name(status), ferry_last_error());
    ferry_context_destroy(&context);
    return EXIT_FAILED;
}
