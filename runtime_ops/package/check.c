/* Runs the C interface of a packaged library: every use of a small DPQ table, and ids that are no rows.
 * Without arguments it prints the selected instruction set; with `list`, those that run here, one a line. */
#include <edge_embed/ops.h>
#include <stdio.h>
#include <string.h>

static uint8_t codes[3] = {0x0, 0x4, 0xB}; /* two groups of two bits: (0, 0), (0, 1), (3, 2) */
static float values[2][4][2] = {{{1, 2}, {3, 4}, {5, 6}, {7, 8}}, {{10, 20}, {30, 40}, {50, 60}, {70, 80}}};
static const float rows[3][4] = {{1, 2, 10, 20}, {1, 2, 30, 40}, {7, 8, 50, 60}};
static double scratch[1 << 16];

static int differs(const char* what, const float* got, const float* expected, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (got[i] != expected[i]) {
      printf("%s: got %g at %d, expected %g\n", what, (double)got[i], (int)i, (double)expected[i]);
      return 1;
    }
  }
  return 0;
}

static int failed(const char* what, ee_status got, ee_status expected) {
  if (got == expected) return 0;
  printf("%s: got \"%s\", expected \"%s\"\n", what, ee_status_message(got), ee_status_message(expected));
  return 1;
}

static int check(const ee_table* table) {
  int64_t numbers[4] = {2, 0, 1, 2}, offsets[3] = {0, 2, 4}, bad = -1, best_rows[2];
  ee_ids ids = {numbers, 4, EE_INT64};
  float got[16], expected[16], hidden[4] = {1, 0, 0, 1};
  for (int i = 0; i < 4; ++i) memcpy(expected + 4 * i, rows[numbers[i]], sizeof rows[0]);
  ee_status status = ee_gather(table, &ids, got, sizeof got, scratch, sizeof scratch, &bad);
  if (failed("gather", status, EE_OK) || differs("gather", got, expected, 16)) return 1;

  ee_bags bags;
  memset(&bags, 0, sizeof bags);
  bags.offsets = offsets;
  bags.num_bags = 2;
  for (int i = 0; i < 8; ++i)
    expected[i] = rows[numbers[i / 4 * 2]][i % 4] + rows[numbers[i / 4 * 2 + 1]][i % 4];
  status = ee_bag(table, &ids, &bags, got, 8 * sizeof(float), scratch, sizeof scratch, &bad);
  if (failed("bag", status, EE_OK) || differs("bag", got, expected, 8)) return 1;

  for (int i = 0; i < 3; ++i) expected[i] = rows[i][0] + rows[i][3];
  status = ee_logits(table, hidden, 1, got, 3 * sizeof(float), scratch, sizeof scratch, &bad);
  if (failed("logits", status, EE_OK) || differs("logits", got, expected, 3)) return 1;

  float best_values[2];
  const ee_best best = {2, NULL, best_values, sizeof best_values, best_rows, sizeof best_rows};
  status = ee_topk(table, hidden, 1, &best, scratch, sizeof scratch, &bad);
  const float expected_best[2] = {expected[2], expected[1]};
  if (failed("topk", status, EE_OK) || differs("topk", best_values, expected_best, 2)) return 1;
  if (best_rows[0] != 2 || best_rows[1] != 1) return puts("topk: other rows than 2 and 1"), 1;

  const int64_t hostile[] = {-1, 3, INT64_MIN, INT64_MAX};
  for (int i = 0; i < 4; ++i) {
    numbers[1] = hostile[i];
    status = ee_gather(table, &ids, got, sizeof got, scratch, sizeof scratch, &bad);
    if (failed("gather of an id that is no row", status, EE_ID_OUT_OF_RANGE)) return 1;
    if (bad != 1)
      return printf("gather: got position %d of the id that is no row, expected 1\n", (int)bad), 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "list") == 0) {
    for (int32_t i = 0; ee_isa_name(i) != NULL; ++i) {
      if (ee_isa_runs(i)) puts(ee_isa_name(i));
    }
    return 0;
  }
  ee_table table;
  memset(&table, 0, sizeof table);
  table.version = EE_TABLE_VERSION;
  table.method = EE_DPQ;
  table.dpq.codes = codes;
  table.dpq.codes_bytes = sizeof codes;
  table.dpq.values = values;
  table.dpq.values_bytes = sizeof values;
  table.dpq.num_embeddings = 3;
  table.dpq.num_codes = 4;
  table.dpq.num_groups = 2;
  table.dpq.group_width = 2;
  table.dpq.padding_idx = -1;
  table.dpq.bits = 2;
  table.dpq.value_type = EE_FLOAT32;
  if (check(&table)) return 1;
  printf("%s %s\n", ee_version(), ee_isa());
  return 0;
}
