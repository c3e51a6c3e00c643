/* What is done with every byte of large files of lines: finding the line ends, and reading fields of JSON into columns.
 *
 * Of JSON only what is plainly sound is taken: each line one object of RFC 8259 in strict UTF-8, a wanted field a text,
 * null or not there, and there once. A block with anything else is refused as a whole, and the caller reads it in
 * another way, which also knows the words for what is wrong. So nothing here decides what is an error.
 *
 * Nothing is read at `end` or beyond, and a text is never longer than it was with its escapes.
 */
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* SHA-256 of this file: the caller uses no library that was compiled from another one. */
const char *source_digest(void) { return SOURCE; }

typedef const uint8_t *place;

enum { ABSENT, NOTHING, TEXT }; /* there is no such field; it is null; it is a text */
enum { DEEPEST = 64, MOST_KNOWN = 127 };

typedef struct {
    const uint8_t *key;
    int64_t key_length;
    int64_t most;    /* characters of a text that are kept, */
    uint8_t *texts;  /* without its escapes, one text after the other; room for as many bytes as the block has */
    int32_t *ends;   /* for each line: where its text ends there, */
    int8_t *kinds;   /* and what stands in the line */
} field;

static const uint64_t ONES = 0x0101010101010101u, HIGH = 0x8080808080808080u;

/* Which bytes of a word are zero: the high bit of each; above the lowest one that is, bits may be wrong. */
static inline uint64_t zeros(uint64_t word) { return (word - ONES) & ~word & HIGH; }

/* The first byte that is a quote, a backslash, a control character or not ASCII; or `end`. */
static inline place plain(place p, place end) {
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), blank = _mm_set1_epi8(0x20);
    for (; end - p >= 16; p += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)p);
        __m128i found = _mm_cmplt_epi8(bytes, blank); /* signed: what is not ASCII is below too */
        found = _mm_or_si128(found, _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)));
        int places = _mm_movemask_epi8(found);
        if (places) return p + __builtin_ctz((unsigned)places);
    }
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (uint64_t word; end - p >= 8; p += 8) {
        memcpy(&word, p, 8);
        uint64_t control = (word - 0x20 * ONES) & ~word & HIGH;
        uint64_t found = zeros(word ^ '"' * ONES) | zeros(word ^ '\\' * ONES) | control | (word & HIGH);
        if (found) return p + __builtin_ctzll(found) / 8;
    }
#endif
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') p++;
    return p;
}

static inline place space(place p, place end) {
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    return p;
}

static inline int follows(place p) { return (*p & 0xC0) == 0x80; }

/* Bytes of the character at p, which is not ASCII; 0 if it is none (Unicode 15, table 3-7). */
static int character(place p, place end) {
    if (end - p >= 2 && p[0] >= 0xC2 && p[0] <= 0xDF && follows(p + 1)) return 2;
    if (end - p >= 3 && p[0] >= 0xE0 && p[0] <= 0xEF && follows(p + 1) && follows(p + 2))
        return (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ? 0 : 3; /* overlong; surrogate */
    if (end - p >= 4 && p[0] >= 0xF0 && p[0] <= 0xF4 && follows(p + 1) && follows(p + 2) && follows(p + 3))
        return (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F) ? 0 : 4; /* overlong; above U+10FFFF */
    return 0;
}

/* The number that four digits spell, or -1. */
static int32_t hexadecimal(place p, place end) {
    int32_t value = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int letter = p[i] | 0x20;
        int digit = p[i] >= '0' && p[i] <= '9' ? p[i] - '0' : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* The character of the escape at p, a backslash, and its length; -1 if it is none or half of a pair of surrogates. */
static int32_t escape(place p, place end, int *length) {
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (end - p < 2) return -1;
    const char *found = p[1] ? strchr(letters, p[1]) : NULL;
    *length = 2;
    if (found) return meant[found - letters];
    int32_t value = p[1] == 'u' ? hexadecimal(p + 2, end) : -1;
    *length = 6;
    if (value < 0xD800 || value > 0xDFFF) return value;
    int is_pair = value < 0xDC00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u';
    int32_t low = is_pair ? hexadecimal(p + 8, end) : -1;
    *length = 12;
    return low >= 0xDC00 && low <= 0xDFFF ? 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00) : -1;
}

/* From behind the opening quote to the closing one; NULL if the text is not sound. */
static place skip_text(place p, place end) {
    for (int length; (p = plain(p, end)) < end; p += length) {
        if (*p == '"') return p;
        if (*p == '\\' ? escape(p, end, &length) < 0 : !(length = character(p, end))) return NULL;
    }
    return NULL;
}

static place skip_digits(place p, place end) {
    place begin = p;
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p > begin ? p : NULL;
}

static place skip_number(place p, place end) {
    if (p < end && *p == '-') p++;
    int begins_with_zero = p < end && *p == '0';
    place digits = p;
    if (!(p = skip_digits(p, end)) || (begins_with_zero && p - digits > 1)) return NULL;
    if (p < end && *p == '.' && !(p = skip_digits(p + 1, end))) return NULL;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        p = skip_digits(p, end);
    }
    return p;
}

static place skip_word(place p, place end, const char *word) {
    size_t length = strlen(word);
    return (size_t)(end - p) >= length && !memcmp(p, word, length) ? p + length : NULL;
}

static place skip_value(place p, place end, int depth);

/* A key and its colon; `quote` gets the place of the key's closing quote. */
static place skip_key(place p, place end, place *quote) {
    if (p == end || *p != '"' || !(p = skip_text(p + 1, end))) return NULL;
    *quote = p;
    p = space(p + 1, end);
    return p < end && *p == ':' ? space(p + 1, end) : NULL;
}

static place skip_values(place p, place end, int depth) {
    int is_object = *p == '{';
    uint8_t closing = is_object ? '}' : ']';
    p = space(p + 1, end);
    if (p < end && *p == closing) return p + 1;
    for (place quote;; p = space(p + 1, end)) {
        if (is_object && !(p = skip_key(p, end, &quote))) return NULL;
        if (!(p = skip_value(p, end, depth))) return NULL;
        p = space(p, end);
        if (p == end) return NULL;
        if (*p == closing) return p + 1;
        if (*p != ',') return NULL;
    }
}

/* From the first byte of a value behind its last; NULL if it is not sound. */
static place skip_value(place p, place end, int depth) {
    if (p == end) return NULL;
    switch (*p) {
    case '"': return (p = skip_text(p + 1, end)) ? p + 1 : NULL;
    case '{':
    case '[': return depth < DEEPEST ? skip_values(p, end, depth + 1) : NULL;
    case 't': return skip_word(p, end, "true");
    case 'f': return skip_word(p, end, "false");
    case 'n': return skip_word(p, end, "null");
    default: return skip_number(p, end);
    }
}

static uint8_t *put(uint8_t *out, int32_t value) {
    if (value < 0x80) {
        *out++ = (uint8_t)value;
        return out;
    }
    int more = value < 0x800 ? 1 : value < 0x10000 ? 2 : 3;
    *out++ = (uint8_t)((0xFF00u >> (more + 1)) | (uint32_t)value >> 6 * more); /* as many ones as bytes, a zero */
    while (more--) *out++ = (uint8_t)(0x80 | (value >> 6 * more & 0x3F));
    return out;
}

/* Copy a text from behind its opening quote, at most so many characters. Where it stopped; NULL if it is no text. */
static place copy_text(place p, place end, int64_t most, uint8_t **to) {
    uint8_t *out = *to;
    for (int length; most > 0; p += length, most--) {
        place next = plain(p, end);
        int64_t count = next - p < most ? next - p : most;
        memcpy(out, p, (size_t)count);
        out += count, p += count, most -= count;
        if (p == end) return NULL;
        if (most == 0 || *p == '"') break;
        if (*p == '\\') {
            int32_t value = escape(p, end, &length);
            if (value < 0) return NULL;
            out = put(out, value);
        } else {
            if (!(length = character(p, end))) return NULL;
            memcpy(out, p, (size_t)length);
            out += length;
        }
    }
    *to = out;
    return p;
}

/* Note the value of a field. NULL if it is neither a text nor null, or the field is there twice. */
static place take(place p, place end, field *wanted, int64_t line) {
    if (p == end || wanted->kinds[line] != ABSENT) return NULL;
    if (*p == 'n') {
        wanted->kinds[line] = NOTHING;
        return skip_word(p, end, "null");
    }
    if (*p != '"') return NULL;
    uint8_t *out = wanted->texts + wanted->ends[line];
    p = copy_text(p + 1, end, wanted->most, &out);
    wanted->kinds[line] = TEXT;
    wanted->ends[line] = (int32_t)(out - wanted->texts);
    return p && (p = skip_text(p, end)) ? p + 1 : NULL;
}

static field *find(place key, int64_t length, field *fields, int count) {
    for (field *each = fields; each < fields + count; each++)
        if (each->key_length == length && !memcmp(each->key, key, (size_t)length)) return each;
    return NULL;
}

/* A key of an earlier line. Lines of a dump have the same ones in the same order, so most need only be compared. */
typedef struct {
    place begin;     /* its opening quote */
    int64_t length;  /* from there to its value; 0: none yet */
    field *wanted;
} known_key;

/* From the opening quote of a key to its value; `known` becomes this key. */
static place skip_known_key(place p, place end, field *fields, int count, known_key *known) {
    if (known->length && end - p > known->length && !memcmp(p, known->begin, (size_t)known->length))
        return p + known->length;
    place quote, value = skip_key(p, end, &quote);
    if (!value || memchr(p, '\\', (size_t)(quote - p))) return NULL; /* perhaps a field's name, spelt oddly */
    *known = (known_key){p, value - p, find(p + 1, quote - p - 1, fields, count)};
    return value;
}

/* One line, from its first byte behind its last brace. */
static place scan_line(place p, place end, field *fields, int count, int64_t line, known_key *known) {
    for (field *each = fields; each < fields + count; each++) {
        each->kinds[line] = ABSENT;
        each->ends[line] = line ? each->ends[line - 1] : 0;
    }
    if (p == end || *p != '{') return NULL;
    p = space(p + 1, end);
    if (p < end && *p == '}') return p + 1;
    for (int key = 0;; key++, p = space(p + 1, end)) {
        known_key *this = known + (key < MOST_KNOWN ? key : MOST_KNOWN);
        if (!(p = skip_known_key(p, end, fields, count, this))) return NULL;
        p = this->wanted ? take(p, end, this->wanted, line) : skip_value(p, end, 0);
        if (!p || (p = space(p, end)) == end) return NULL;
        if (*p == '}') return p + 1;
        if (*p != ',') return NULL;
    }
}

/* Read fields of a block of lines into columns.
 *
 * data, size: the block, below 2 GiB.
 * fields, count: what is wanted, with room for `lines`.
 * lines: how many there are.
 * Returns 1 if the block has so many lines and all are sound, otherwise 0.
 */
int json_columns(const uint8_t *data, int64_t size, field *fields, int count, int64_t lines) {
    place p = data, end = data + size;
    known_key known[MOST_KNOWN + 1] = {0};
    if (size > INT32_MAX) return 0;
    for (int64_t line = 0; line < lines; line++) {
        if (!(p = scan_line(p, end, fields, count, line, known))) return 0;
        if (p < end && *p++ != '\n') return 0;
    }
    return p == end;
}

/* Find the places of the line ends.
 *
 * data, size: any bytes.
 * places, room: gets as many of them as there is room for.
 * Returns how many there are.
 */
int64_t line_ends(const uint8_t *data, int64_t size, int64_t *places, int64_t room) {
    place p = data, end = data + size;
    int64_t count = 0;
    for (; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++, count++)
        if (count < room) places[count] = p - data;
    return count;
}
