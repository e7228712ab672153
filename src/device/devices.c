/* SPDX-License-Identifier: MIT */
#include "src/device/device.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/*
 * The registry of device kinds, and the parser of the environment variable FERRY_DEVICE. Its value
 * is a list of entries `name`, `name:NUMBER` or `name:all`, separated by commas. If the kind
 * creates devices on request, NUMBER is the number of devices to create. For other kinds, NUMBER
 * selects one device. Only this file refers to each kind by its name.
 */

#define KINDS_MAX  16
#define UNNUMBERED (-1) /* value of entry.number */
#define ALL        (-2)

static const ferryi_device_kind *kinds[KINDS_MAX] = {&ferryi_host_kind, &ferryi_emulated_kind,
                                                     &ferryi_cuda_kind, &ferryi_hip_kind,
                                                     &ferryi_opencl_kind};
static size_t kind_count = 5;

/* The kinds that are chosen without being named, the best one first. */
static const ferryi_device_kind *const best_kinds[] = {&ferryi_cuda_kind, &ferryi_hip_kind};

void
ferryi_device_register(const ferryi_device_kind *kind)
{
    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i] == kind)
            return;
    assert(kind_count < KINDS_MAX);
    kinds[kind_count++] = kind;
}

const ferryi_device_kind *
ferryi_device_compiler(ferry_language language)
{
    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i]->language == language && kinds[i]->code_check)
            return kinds[i];
    return NULL;
}

bool
ferryi_device_is_peer(const ferryi_device *device, const ferryi_device *other)
{
    return device->group == other->group && strcmp(device->kind, other->kind) == 0;
}

static const ferryi_device_kind *
find_kind(const char *name, size_t name_length)
{
    for (size_t i = 0; i < kind_count; i++)
        if (strlen(kinds[i]->name) == name_length && memcmp(kinds[i]->name, name, name_length) == 0)
            return kinds[i];
    return NULL;
}

/* One entry of the list in FERRY_DEVICE. `name` points into the text of the list. */
struct entry {
    const char *name;
    size_t name_length;
    int number; /* or UNNUMBERED, or ALL */
};

static bool
is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static const char *
skip_blanks(const char *text)
{
    while (*text == ' ' || *text == '\t')
        text++;
    return text;
}

/* Parses "all" or a number at the start of `text`, and returns the position after it. A number that
 * is too large becomes INT_MAX. Returns NULL if the text starts with neither "all" nor a digit. */
static const char *
parse_number(const char *text, int *out)
{
    if (strncmp(text, "all", 3) == 0) {
        *out = ALL;
        return text + 3;
    }
    if (*text < '0' || *text > '9')
        return NULL;
    int number = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        number = number > (INT_MAX - 9) / 10 ? INT_MAX : number * 10 + (*text - '0');
    *out = number;
    return text;
}

/* Parses the list entry at `text`. Returns the position after the entry and the comma that follows
 * it, or NULL if the entry is malformed. */
static const char *
parse_entry(const char *text, struct entry *out)
{
    text = skip_blanks(text);
    out->name = text;
    while (is_name_character(*text))
        text++;
    out->name_length = (size_t)(text - out->name);
    out->number = UNNUMBERED;
    if (out->name_length == 0)
        return NULL;
    if (*text == ':') {
        text = parse_number(text + 1, &out->number);
        if (!text)
            return NULL;
    }
    text = skip_blanks(text);
    if (*text == 0)
        return text;
    /* A comma must be followed by another entry. */
    return *text == ',' && *skip_blanks(text + 1) != 0 ? text + 1 : NULL;
}

/* The state of opening a list of devices: the settings, and the devices that are already open. */
struct opening {
    const char *spec;
    const struct ferryi_device_config *config;
    ferryi_device **devices;
    const ferryi_device_kind *kinds[FERRYI_DEVICES_MAX];
    int ordinals[FERRYI_DEVICES_MAX];
    int count;
};

static ferry_status
open_one(struct opening *opening, const ferryi_device_kind *kind, int ordinal)
{
    if (opening->count == FERRYI_DEVICES_MAX)
        return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                           "open devices \"%s\": more than %d devices in one context",
                           opening->spec, FERRYI_DEVICES_MAX);
    ferryi_device **device = &opening->devices[opening->count];
    ferry_status status = kind->open(ordinal, opening->config, device);
    if (status != FERRY_OK)
        return ferryi_fail_in(status, "open devices \"%s\": %s:%d", opening->spec, kind->name,
                              ordinal);
    opening->kinds[opening->count] = kind;
    opening->ordinals[opening->count] = ordinal;
    opening->count++;
    return FERRY_OK;
}

/* Opens the devices of a list entry such as "emulated:3", whose kind creates devices on request. If
 * earlier entries of the list have the same kind, the first new ordinal follows their last one. */
static ferry_status
open_made_up(struct opening *opening, const ferryi_device_kind *kind, int wanted)
{
    if (wanted < 1)
        return ferryi_fail(
            FERRY_ERROR_INVALID_ARGUMENT,
            "open devices \"%s\": %s:N makes N devices, 1 or more, such as %s:2 for two",
            opening->spec, kind->name, kind->name);
    int ordinal = 0;
    for (int i = 0; i < opening->count; i++)
        ordinal += opening->kinds[i] == kind;
    ferry_status status = FERRY_OK;
    for (int i = 0; i < wanted && status == FERRY_OK; i++)
        status = open_one(opening, kind, ordinal + i);
    return status;
}

static ferry_status
open_real(struct opening *opening, const ferryi_device_kind *kind, int ordinal)
{
    for (int i = 0; i < opening->count; i++) {
        if (opening->kinds[i] == kind && opening->ordinals[i] == ordinal)
            return ferryi_fail(FERRY_ERROR_INVALID_ARGUMENT,
                               "open devices \"%s\": %s:%d is listed twice", opening->spec,
                               kind->name, ordinal);
    }
    int present = kind->count();
    if (present <= 0)
        return ferryi_fail_in(FERRY_ERROR_NO_DEVICE, "open devices \"%s\": there is no %s device",
                              opening->spec, kind->name);
    if (ordinal >= present)
        return ferryi_fail(
            FERRY_ERROR_NO_DEVICE,
            "open devices \"%s\": there is no %s:%d, this machine has %d such device%s",
            opening->spec, kind->name, ordinal, present, present == 1 ? "" : "s");
    return open_one(opening, kind, ordinal);
}

/* Opens the devices of a list entry such as "cuda:all". It opens all devices of the kind, up to the
 * maximum number of devices in a context. */
static ferry_status
open_all(struct opening *opening, const ferryi_device_kind *kind)
{
    int present = kind->count(), room = FERRYI_DEVICES_MAX - opening->count;
    if (present > room)
        ferryi_log(&opening->config->log, FERRY_LOG_WARNING,
                   "open devices \"%s\": %d of the %d %s devices, a context has at most %d",
                   opening->spec, room, present, kind->name, FERRYI_DEVICES_MAX);
    int end = present < room ? present : room, ordinal = 0;
    ferry_status status;
    /* If the machine has no device, the function still tries to open device 0. The attempt fails
     * and sets the message that says why there is no device. */
    do {
        status = open_real(opening, kind, ordinal++);
    } while (status == FERRY_OK && ordinal < end);
    return status;
}

static ferry_status
refuse_kind(const struct opening *opening, const struct entry *entry)
{
    char names[256] = "";
    size_t length = 0;
    for (size_t i = 0; i < kind_count && length < sizeof(names); i++)
        length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
                                   i == 0               ? ""
                                   : i + 1 < kind_count ? ", "
                                                        : " and ",
                                   kinds[i]->name);
    return ferryi_fail(FERRY_ERROR_NO_DEVICE,
                       "open devices \"%s\": there is no kind of device called \"%.*s\", only %s",
                       opening->spec, (int)entry->name_length, entry->name, names);
}

static ferry_status
open_entry(struct opening *opening, const struct entry *entry)
{
    const ferryi_device_kind *kind = find_kind(entry->name, entry->name_length);
    if (!kind)
        return refuse_kind(opening, entry);
    if (kind->made_up)
        return open_made_up(opening, kind, entry->number == UNNUMBERED ? 1 : entry->number);
    if (entry->number == ALL)
        return open_all(opening, kind);
    /* Drivers list the best device first, so device 0 is the default. */
    return open_real(opening, kind, entry->number == UNNUMBERED ? 0 : entry->number);
}

/* Fails if the list is malformed or contains devices of different kinds. Devices of different kinds
 * cannot wait for each other's events, copy from each other, or share pinned memory and staging
 * rings. Only the host device is compatible with every kind. */
static ferry_status
check_list(const char *spec)
{
    const ferryi_device_kind *first = NULL;
    const char *text = spec;
    do {
        struct entry entry;
        text = parse_entry(text, &entry);
        if (!text)
            return ferryi_fail(
                FERRY_ERROR_INVALID_ARGUMENT,
                "open devices \"%s\": not a list such as \"host\", \"emulated:2\" or "
                "\"cuda:0,cuda:1\"",
                spec);
        const ferryi_device_kind *kind = find_kind(entry.name, entry.name_length);
        if (!kind || kind == &ferryi_host_kind)
            continue;
        if (first && kind != first)
            return ferryi_fail(FERRY_ERROR_UNSUPPORTED,
                               "open devices \"%s\": a context cannot mix %s and %s devices; make "
                               "a context for each kind",
                               spec, first->name, kind->name);
        first = kind;
    } while (*text != 0);
    return FERRY_OK;
}

/* Parses the whole list before the first device is opened. So a typing error in the list is
 * reported before any driver is started. */
static ferry_status
open_list(struct opening *opening)
{
    ferry_status status = check_list(opening->spec);
    const char *text = opening->spec;
    while (status == FERRY_OK && *text != 0) {
        struct entry entry;
        text = parse_entry(text, &entry);
        status = open_entry(opening, &entry);
    }
    return status;
}

/* Opens the first device of the best kind that has one. The reason for using the host device is the
 * failure of a driver that exists; without one, it is the failure of the best kind. */
static ferry_status
open_best(struct opening *opening)
{
    const struct ferryi_log *log = &opening->config->log;
    struct ferryi_kept_error why;
    bool has_driver = false;
    for (size_t i = 0; i < sizeof(best_kinds) / sizeof(best_kinds[0]); i++) {
        opening->spec = best_kinds[i]->name;
        ferry_status status = open_real(opening, best_kinds[i], 0);
        if (status == FERRY_OK) {
            ferryi_log(log, FERRY_LOG_INFO, "using %s:0, %s", best_kinds[i]->name,
                       opening->devices[0]->properties.name);
            return FERRY_OK;
        }
        if (i == 0 || (status != FERRY_ERROR_NO_DEVICE && !has_driver))
            ferryi_last_error_keep(&why);
        has_driver |= status != FERRY_ERROR_NO_DEVICE;
    }
    /* A machine without a driver is logged only as information. */
    ferryi_last_error_restore(&why);
    ferryi_log(log, has_driver ? FERRY_LOG_WARNING : FERRY_LOG_INFO, "using the host device: %s",
               ferry_last_error());
    opening->spec = ferryi_host_kind.name;
    return open_real(opening, &ferryi_host_kind, 0);
}

ferry_status
ferryi_devices_open(const char *spec, const struct ferryi_device_config *config,
                    ferryi_device *out[FERRYI_DEVICES_MAX], int *out_count)
{
    ferryi_device *devices[FERRYI_DEVICES_MAX];
    struct opening opening = {.spec = spec, .config = config, .devices = devices};
    ferry_status status = spec ? open_list(&opening) : open_best(&opening);
    if (status != FERRY_OK)
        goto fail;
    memcpy(out, devices, (size_t)opening.count * sizeof(devices[0]));
    *out_count = opening.count;
    return FERRY_OK;

fail:
    while (opening.count > 0) {
        ferryi_device *device = devices[--opening.count];
        device->ops->close(device);
    }
    return status;
}
