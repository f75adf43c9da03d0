/* System calls: vprintf and __assertfail (CUDA C++ Programming Guide, "Formatted Output", "Assertion"). */
#include "memory/address.h"

#define MOST_VALUES 32u   /* arguments of a printf in addition to the format string */
#define MOST_FIELD 65535u /* width or precision */

/* ---- text ----------------------------------------------------------------------------------------- */
static void append(Machine *m, const void *text, size_t n) {
  u64 need = m->n_output + n;
  if (need > m->cap_output) {
    u64 room = need > 2 * m->cap_output ? need + 4096 : 2 * m->cap_output;
    m->output = mem_resize(m, m->output, room, 1);
    m->cap_output = room;
  }
  memcpy(m->output + m->n_output, text, n);
  m->n_output = need;
}

/* One printf of one lane. */
typedef struct {
  Ctx *c;
  u32 lane, taken; /* values taken so far, those of `*` too */
  u64 format, values, offset;
} Printing;

/* The next value of 4 or 8 bytes: they lie like the members of a structure. */
static bool value(Printing *p, u32 size, u64 *out) {
  p->offset = (p->offset + size - 1) & ~(u64)(size - 1);
  const u8 *bytes = generic_bytes(p->c, p->values + p->offset, size, p->lane);
  if (!bytes)
    return false;
  *out = 0;
  memcpy(out, bytes, size);
  p->offset += size;
  p->taken++;
  return true;
}

/* A copy of the string at an address, at most `most` bytes; NULL after a fault. */
static char *string_at(Printing *p, u64 address, u64 most) {
  u64 n = 0;
  const u8 *byte = NULL;
  for (; n < most; n++) {
    byte = generic_bytes(p->c, address + n, 1, p->lane);
    if (!byte)
      return NULL;
    if (!*byte)
      break;
  }
  char *text = mem_new(p->c->m, n + 1, 1);
  for (u64 k = 0; k < n; k++)
    text[k] = (char)*generic_bytes(p->c, address + k, 1, p->lane);
  return text;
}

/* %[flags][width][.precision][size]type, as the host's printf reads it; `text` holds it up to the size. */
typedef struct {
  char text[48];
  u32 n, precision;
  bool precise, wide;
  char type;
} Field;

static bool next_char(Printing *p, char *out) {
  const u8 *byte = generic_bytes(p->c, p->format, 1, p->lane);
  if (!byte)
    return false;
  *out = (char)*byte;
  p->format++;
  return true;
}

/* Digits or `*`; `at` holds the first character and gets the one after it. */
static bool number(Printing *p, Field *f, char *at, i32 *out) {
  u64 given = 0;
  if (*at == '*') {
    if (!value(p, 4, &given) || !next_char(p, at))
      return false;
    *out = (i32)given;
  } else {
    while (*at >= '0' && *at <= '9') {
      given = given > MOST_FIELD ? given : given * 10 + (u64)(*at - '0');
      if (!next_char(p, at))
        return false;
    }
    *out = (i32)given;
  }
  if (*out > (i32)MOST_FIELD)
    *out = (i32)MOST_FIELD;
  if (*out < -(i32)MOST_FIELD)
    *out = -(i32)MOST_FIELD;
  f->n += (u32)snprintf(f->text + f->n, sizeof f->text - f->n, "%d", *out);
  return true;
}

static bool field(Printing *p, Field *f) {
  char at;
  i32 width;
  *f = (Field){.text = "%", .n = 1};
  if (!next_char(p, &at))
    return false;
  while (at && strchr("#0- +", at)) {
    if (f->n < 8)
      f->text[f->n++] = at;
    if (!next_char(p, &at))
      return false;
  }
  if ((at == '*' || (at >= '1' && at <= '9')) && !number(p, f, &at, &width))
    return false;
  if (at == '.') {
    i32 precision = 0;
    u32 dot = f->n;
    f->text[f->n++] = '.';
    if (!next_char(p, &at) || !number(p, f, &at, &precision))
      return false;
    f->precise = precision >= 0; /* a negative one is as if there was none */
    f->precision = (u32)precision;
    if (!f->precise)
      f->n = dot;
  }
  while (at && strchr("hlzjt", at)) {
    f->wide |= at != 'h';
    if (!next_char(p, &at))
      return false;
  }
  f->type = at;
  return true;
}

/* One value as the host's printf writes it; its length. */
static int format_value(const Field *f, u64 v, const char *string, char *out, size_t room) {
  char form[sizeof f->text + 4];
  bool real = strchr("aAeEfFgG", f->type), whole = strchr("diouxX", f->type);
  snprintf(form, sizeof form, "%.*s%s%c", (int)f->n, f->text, whole ? "ll" : "", f->type);
  if (real) {
    double d;
    memcpy(&d, &v, sizeof d);
    return snprintf(out, room, form, d);
  }
  if (f->type == 's')
    return snprintf(out, room, form, string);
  if (f->type == 'p')
    return snprintf(out, room, form, (void *)(uintptr_t)v);
  if (f->type == 'c')
    return snprintf(out, room, form, (int)v);
  bool sign = f->type == 'd' || f->type == 'i';
  return snprintf(out, room, form, sign && !f->wide ? (long long)(i32)v : (long long)v);
}

static bool print_value(Printing *p, const Field *f) {
  Machine *m = p->c->m;
  char small[256], *string = NULL;
  u64 v = 0;
  bool is_string = f->type == 's', wide = f->wide || strchr("aAeEfFgGps", f->type);
  if (!value(p, wide ? 8 : 4, &v))
    return false;
  if (is_string && v && !(string = string_at(p, v, f->precise ? f->precision : UINT64_MAX)))
    return false;
  const char *text = is_string && !v ? "(null)" : string;
  int n = format_value(f, v, text, small, sizeof small);
  if ((size_t)n < sizeof small)
    append(m, small, (size_t)n);
  else {
    char *large = mem_new(m, (size_t)n + 1, 1);
    format_value(f, v, text, large, (size_t)n + 1);
    append(m, large, (size_t)n);
    mem_free(large);
  }
  mem_free(string);
  return true;
}

/* False after a fault. */
static bool print_lane(Printing *p) {
  Machine *m = p->c->m;
  for (;;) {
    char at;
    if (!next_char(p, &at))
      return false;
    if (!at)
      return true;
    if (at != '%') {
      append(m, &at, 1);
      continue;
    }
    u64 start = p->format;
    Field f;
    if (!field(p, &f))
      return false;
    if (f.type == '%' && p->format == start + 1) {
      append(m, "%", 1);
      continue;
    }
    if (!f.type || !strchr("diouxXcspaAeEfFgG", f.type)) {
      fault(p->c, "printf-format", "the conversion %s%c of a format string is not one that CUDA documents", f.text,
            f.type ? f.type : ' ');
      return false;
    }
    if (p->taken >= MOST_VALUES) {
      fault(p->c, "printf-format", "a format string takes more than %u values", MOST_VALUES);
      return false;
    }
    if (!print_value(p, &f))
      return false;
  }
}

/* s: format, values; d: how many values were taken, -1 without a format. */
static Step op_vprintf(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l) {
    u64 format = R64(c, i->s[0])[l];
    Printing p = {.c = c, .lane = l, .format = format, .values = R64(c, i->s[1])[l]};
    if (format && !print_lane(&p))
      return STEP_FAULT;
    R32(c, i->d[0])[l] = format ? p.taken : NONE32;
  }
  note_progress(c->cl);
  return STEP_NEXT;
}

/* ---- assertions ----------------------------------------------------------------------------------- */
/* The text at an address; its last bytes where `tail`, else the first ones. */
static const char *quoted(Ctx *c, u64 address, u32 lane, bool tail, char *out, u32 room) {
  u32 n = 0;
  for (u64 at = address; at; at++) {
    const u8 *byte = generic_bytes(c, at, 1, lane);
    if (!byte)
      return NULL;
    if (!*byte || (n + 1 == room && !tail))
      break;
    if (n + 1 == room)
      memmove(out, out + 1, --n);
    out[n++] = (char)*byte;
  }
  out[n] = 0;
  return out;
}

/* s: message, file, line, function.  The text is that of CUDA. */
static Step op_assert_fail(Ctx *c, const Ins *i) {
  u32 l = first_lane(c->mask);
  char message[132], file[72], function[100], more[40] = "";
  if (!quoted(c, R64(c, i->s[0])[l], l, false, message, sizeof message) ||
      !quoted(c, R64(c, i->s[1])[l], l, true, file, sizeof file) ||
      !quoted(c, R64(c, i->s[3])[l], l, false, function, sizeof function))
    return STEP_FAULT;
  const u32 *block = c->m->opt.block, *at = c->cta->ctaid;
  u32 t = c->w->index * LANES + l;
  if (c->mask & (c->mask - 1))
    snprintf(more, sizeof more, " (lanes %08x)", c->mask);
  return fault(c, "assertion", "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.%s", file,
               R32(c, i->s[2])[l], function, at[0], at[1], at[2], t % block[0], t / block[0] % block[1],
               t / (block[0] * block[1]), message, more);
}

OP_TABLE(system) = {{"VPRINTF", op_vprintf}, {"ASSERT_FAIL", op_assert_fail}, {NULL, NULL}};
