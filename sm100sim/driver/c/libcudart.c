/* The library that stands where libcudart.so stands, and where a program has the runtime inside.
 *
 * nvcc links the runtime into programs unless told otherwise. NVIDIA's runtime speaks to its driver
 * through private tables, which no stand-in has. So in a program that `sm100sim run` started, the
 * entry of each of its runtime functions is turned into a jump to the function of that name here,
 * in memory, before the first of them is called; the file stays as it is. They are found by the
 * program's symbol table: one that was stripped has to be linked with `-cudart shared`.
 */
#define _GNU_SOURCE
#include "forward.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime_names.h"

/* jmp *0(%rip), and the target after it */
static const unsigned char JUMP[6] = {0xff, 0x25, 0, 0, 0, 0};

enum { JUMP_BYTES = sizeof JUMP + sizeof(u64) };

typedef struct {
  const char *name;
  u64 (*function)(PARAMETERS);
} Replacement;

#undef ENTRY
#define ENTRY(name) {#name, name},
static const Replacement replacements[] = {
#include "runtime_names.h"
};

static const Replacement *replacement(const char *name) {
  for (u64 k = 0; k < sizeof replacements / sizeof *replacements; k++)
    if (!strcmp(replacements[k].name, name))
      return &replacements[k];
  return NULL;
}

static int redirect(char *entry, const Replacement *to) {
  u64 page = (u64)sysconf(_SC_PAGESIZE), start = (u64)entry / page * page;
  u64 length = (u64)entry + JUMP_BYTES - start;
  if (mprotect((void *)start, length, PROT_READ | PROT_WRITE | PROT_EXEC))
    return 0;
  memcpy(entry, JUMP, sizeof JUMP);
  memcpy(entry + sizeof JUMP, &to->function, sizeof(u64));
  return !mprotect((void *)start, length, PROT_READ | PROT_EXEC);
}

static int first_object(struct dl_phdr_info *info, size_t size, void *bias) {
  (void)size;
  *(u64 *)bias = info->dlpi_addr;
  return 1;
}

static void redirect_all(const char *file, const Elf64_Shdr *sections, const Elf64_Shdr *table) {
  const char *names = file + sections[table->sh_link].sh_offset;
  const Elf64_Sym *symbols = (const Elf64_Sym *)(file + table->sh_offset);
  u64 bias = 0;
  dl_iterate_phdr(first_object, &bias);
  for (u64 k = 0; k < table->sh_size / sizeof *symbols; k++) {
    const char *name = names + symbols[k].st_name;
    int defined = ELF64_ST_TYPE(symbols[k].st_info) == STT_FUNC && symbols[k].st_shndx != SHN_UNDEF;
    if (!defined || (strncmp(name, "cuda", 4) && strncmp(name, "__cuda", 6)))
      continue;
    const Replacement *to = replacement(name);
    if (to && !redirect((char *)bias + symbols[k].st_value, to))
      fprintf(stderr, "sm100sim: %s of the program cannot be replaced\n", name);
  }
}

__attribute__((constructor)) static void replace_linked_runtime(void) {
  int handle = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  struct stat about;
  if (handle < 0)
    return;
  if (!fstat(handle, &about) && about.st_size > (off_t)sizeof(Elf64_Ehdr)) {
    char *file = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, handle, 0);
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)file;
    if (file != MAP_FAILED && !memcmp(head->e_ident, ELFMAG, SELFMAG) && head->e_ident[EI_CLASS] == ELFCLASS64) {
      const Elf64_Shdr *sections = (const Elf64_Shdr *)(file + head->e_shoff);
      for (int k = 0; k < head->e_shnum; k++)
        if (sections[k].sh_type == SHT_SYMTAB)
          redirect_all(file, sections, &sections[k]);
    }
    if (file != MAP_FAILED)
      munmap(file, (size_t)about.st_size);
  }
  close(handle);
}
