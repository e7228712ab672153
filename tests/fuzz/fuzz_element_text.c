/* SPDX-License-Identifier: MIT */
/* Fuzz target. The input is a text for the parser of element names. An accepted text must result in
 * a valid element. The parser must also accept the name that Ferry writes for this element. */
#include <stdlib.h>
#include <string.h>

#include <ferry/exchange.h>

#include "tests/fuzz/fuzz.h"

/* Maximum number of element types that one process creates. There is a limit, because element types
 * stay allocated until the process ends. */
#define KEPT_MAX 200000

static void
expect_round_trip(ferry_text language, const ferry_element *element)
{
    size_t length = ferry_element_text(element, language, NULL, 0);
    char *text = malloc(length + 1);
    const ferry_element *again;
    if (!text)
        return;
    if (length == 0 || ferry_element_text(element, language, text, length + 1) != length ||
        strlen(text) != length)
        abort();
    if (ferry_element_parse(language, text, &again) != FERRY_OK || again->bytes != element->bytes)
        abort();
    if (language == FERRY_TEXT_BUFFER && !ferry_element_equal(element, again))
        abort();
    free(text);
}

/* The first byte of the input selects the language of the text. */
int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static size_t kept;
    const ferry_element *element = NULL;
    char *text = count && kept < KEPT_MAX ? malloc(count) : NULL;
    if (!text)
        return 0;
    memcpy(text, bytes + 1, count - 1);
    text[count - 1] = 0;
    ferry_text language = (ferry_text)(bytes[0] % 4);
    ferry_status status = ferry_element_parse(language, text, &element);
    free(text);
    if ((status == FERRY_OK) != (element != NULL) ||
        (status != FERRY_OK && strlen(ferry_last_error()) < 5))
        abort();
    if (!element)
        return 0;
    kept += element->kind == FERRY_KIND_STRUCT;
    if (ferry_element_identity(element) != element->identity || element->identity == 0)
        abort();
    expect_round_trip(language, element);
    return 0;
}
