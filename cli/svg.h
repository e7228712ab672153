/* SPDX-License-Identifier: MIT */
#ifndef FERRY_CLI_SVG_H
#define FERRY_CLI_SVG_H

#include <stdio.h>

/* The parts of an SVG picture that all charts of the command share. Write errors show in ferror().
 */

/* Writes the head of a picture, with a white background and the styles that the other functions
 * name. svg_end() ends it. */
void svg_begin(FILE *file, int width, int height);
void svg_end(FILE *file);
/* Writes one line of text, escaped. `anchor` is start, middle or end; `class` is title, label or
 * tick. */
void svg_text(FILE *file, double x, double y, const char *anchor, const char *class,
              const char *text);
/* Writes a straight line. `class` is grid, axis, failed or limit. */
void svg_line(FILE *file, double x1, double y1, double x2, double y2, const char *class);
/* Writes text that is turned to read upwards, centred on (x, y). */
void svg_upward_text(FILE *file, double x, double y, const char *class, const char *text);
/* Returns the distance of ticks on an axis of `span`, at most about six: 1, 2 or 5 times a power of
 * ten. */
double svg_round_step(double span);

#endif
