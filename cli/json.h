/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_JSON_H
#define FERRY_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * A JSON writer: members in the order of the calls, commas and indentation by itself. A NULL name
 * makes an array's element. Nothing is checked; the caller opens and closes in pairs, at most 15
 * deep.
 */
struct json {
    FILE *file;
    int depth;
    bool filled[16]; /* has the object or array at this depth a member yet? */
};

void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);
void json_string(struct json *json, const char *name, const char *value); /* NULL: null */
void json_number(struct json *json, const char *name, uint64_t value);
void json_real(struct json *json, const char *name, double value); /* null when it is no number */
void json_bool(struct json *json, const char *name, bool value);
void json_null(struct json *json, const char *name);

#endif
