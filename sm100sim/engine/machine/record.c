/* Steps and values that a machine records (contract/records.h, RawRecording and RawStep). */
#include "machine/record.h"

#define FIRST_ROOM 4096u

static void *grown(Machine *m, void *old, u64 used, u64 *room, size_t item) {
  if (used < *room)
    return old;
  u64 more = *room ? 2 * *room : FIRST_ROOM;
  void *p = mem_resize(m, old, more, item);
  *room = more;
  return p;
}

static void add_value(Machine *m, u64 value) {
  m->values = grown(m, m->values, m->n_values, &m->cap_values, sizeof(u64));
  m->values[m->n_values++] = value;
}

void record_values(Ctx *c, const Ins *i) {
  Machine *m = c->m;
  const RawRecording *r = m->recording;
  u64 index = (u64)(i - m->prog.code);
  memset(c->notes, 0, sizeof c->notes);
  for (u32 k = r->first[index]; k < r->first[index + 1]; k++)
    FOR_LANES (c->mask, l)
      add_value(m, r->slots[k].bits == 64 ? R64(c, r->slots[k].slot)[l] : R32(c, r->slots[k].slot)[l]);
}

void record_step(Ctx *c, const Ins *i, u32 active, u64 values) {
  Machine *m = c->m;
  u32 index = (u32)(i - m->prog.code);
  if (!m->recording->kept[index])
    return;
  m->steps = grown(m, m->steps, m->n_steps, &m->cap_steps, sizeof(RawStep));
  m->steps[m->n_steps++] = (RawStep){.cluster = (u32)c->cl->index,
                                     .rank = (u16)c->cta->rank,
                                     .warp = (u16)c->w->index,
                                     .instruction = index,
                                     .mask = c->mask,
                                     .active = active,
                                     .value = values,
                                     .notes = {c->notes[0], c->notes[1], c->notes[2]}};
}

void record_end(Ctx *c, const Ins *i, Step step, u32 active, u64 values) {
  Machine *m = c->m;
  if (step == STEP_BLOCK) {
    m->n_values = values;
    return;
  }
  if (step == STEP_NEXT && (c->mask & ~active)) { /* lanes of other splits have joined */
    u64 notes[3];
    memcpy(notes, c->notes, sizeof notes);
    m->n_values = values;
    record_values(c, i);
    memcpy(c->notes, notes, sizeof notes);
    active = c->sp->mask;
  }
  record_step(c, i, active, values);
}

void sm100_machine_record(Machine *m, const RawRecording *recording) {
  m->recording = recording;
}

u64 sm100_machine_steps(Machine *m, RawStep *out, u64 room) {
  if (out && m->n_steps)
    memcpy(out, m->steps, sizeof(RawStep) * (m->n_steps < room ? m->n_steps : room));
  return m->n_steps;
}

u64 sm100_machine_values(Machine *m, u64 *out, u64 room) {
  if (out && m->n_values)
    memcpy(out, m->values, sizeof(u64) * (m->n_values < room ? m->n_values : room));
  return m->n_values;
}
