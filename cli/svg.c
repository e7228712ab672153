/* SPDX-License-Identifier: MIT */
#include "cli/svg.h"

#include <math.h>

#include "cli/output.h"

enum { TICKS = 6 };

void
svg_begin(FILE *file, int width, int height)
{
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\">\n"
            "<style>text{font-family:sans-serif;fill:#222}.title{font-size:16px}.label{font-size:"
            "13px}.tick{font-size:12px}"
            ".grid{stroke:#e3e6ea}.axis{stroke:#555}.failed{stroke:#c22;stroke-width:1.2}.limit{"
            "stroke:#333;stroke-dasharray:5 4}</style>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            width, height, width, height, width, height);
}

void
svg_end(FILE *file)
{
    fputs("</svg>\n", file);
}

void
svg_text(FILE *file, double x, double y, const char *anchor, const char *class, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor,
            class);
    output_svg_text(file, text);
    fputs("</text>\n", file);
}

void
svg_line(FILE *file, double x1, double y1, double x2, double y2, const char *class)
{
    fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1,
            x2, y2, class);
}

void
svg_upward_text(FILE *file, double x, double y, const char *class, const char *text)
{
    fprintf(file, "<g transform=\"translate(%.0f %.1f) rotate(-90)\">", x, y);
    svg_text(file, 0, 0, "middle", class, text);
    fputs("</g>\n", file);
}

double
svg_round_step(double span)
{
    double raw = span / TICKS, power = pow(10.0, floor(log10(raw)));
    double lead = raw / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}
