/* SPDX-License-Identifier: MIT */
/* Compares SHA-256 with the examples of FIPS 180-4 and with NIST's test vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/sha256.h"

static void
assert_hash(struct ferryi_sha256 *state, const char *wanted)
{
    unsigned char hash[FERRYI_SHA256_BYTES];
    char text[2 * FERRYI_SHA256_BYTES + 1];
    ferryi_sha256_end(state, hash);
    for (int i = 0; i < FERRYI_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    assert_string_equal(text, wanted);
}

static void
assert_text_hash(const char *text, const char *wanted)
{
    struct ferryi_sha256 state;
    ferryi_sha256_begin(&state);
    ferryi_sha256_add(&state, text, strlen(text));
    assert_hash(&state, wanted);
}

static void
test_vectors(void **state)
{
    (void)state;
    assert_text_hash("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_text_hash("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_text_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_text_hash("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmn"
                     "opqklmnopqrlmnopqrsmnopqrstnopqrstu",
                     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    assert_text_hash("\xbd", "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
    assert_text_hash("\xc9\x8c\x8e\x55",
                     "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504");
}

/* Hashes messages of zeros from NIST's list, whose lengths are close to the length of a SHA-256
 * block. */
static void
test_lengths_around_a_block(void **state)
{
    static const struct {
        size_t count;
        const char *hash;
    } cases[] = {
        {55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7"},
        {56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb"},
        {57, "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785"},
        {64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"},
        {1000, "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53"},
    };
    static const unsigned char zeros[1000];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ferryi_sha256 hash;
        ferryi_sha256_begin(&hash);
        ferryi_sha256_add(&hash, zeros, cases[i].count);
        assert_hash(&hash, cases[i].hash);
    }
}

/* Hashes a million letters in parts of different sizes. The hash must not depend on the sizes of
 * the parts. */
static void
test_pieces_do_not_matter(void **state)
{
    char letters[200];
    (void)state;
    memset(letters, 'a', sizeof(letters));
    struct ferryi_sha256 hash;
    ferryi_sha256_begin(&hash);
    for (size_t done = 0, part; done < 1000000; done += part) {
        part = done % 199 + 1;
        part = part < 1000000 - done ? part : 1000000 - done;
        ferryi_sha256_add(&hash, letters, part);
    }
    assert_hash(&hash, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void
hash_pieces(const char *first, const char *second, unsigned char out[FERRYI_SHA256_BYTES])
{
    struct ferryi_sha256 state;
    ferryi_sha256_begin(&state);
    ferryi_sha256_add_piece(&state, first, strlen(first));
    ferryi_sha256_add_piece(&state, second, strlen(second));
    ferryi_sha256_end(&state, out);
}

static void
test_lists_of_pieces_differ(void **state)
{
    unsigned char a[FERRYI_SHA256_BYTES], b[FERRYI_SHA256_BYTES], c[FERRYI_SHA256_BYTES];
    (void)state;
    hash_pieces("ab", "c", a);
    hash_pieces("a", "bc", b);
    hash_pieces("ab", "c", c);
    assert_memory_not_equal(a, b, sizeof(a));
    assert_memory_equal(a, c, sizeof(a));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_lengths_around_a_block),
        cmocka_unit_test(test_pieces_do_not_matter),
        cmocka_unit_test(test_lists_of_pieces_differ),
    };
    return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}
