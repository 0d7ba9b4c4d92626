/** How often loops ran on the GPU, and why not, as Prometheus text. */

export class Counters {
  success = 0;
  /** @type {Map<string, number>} */ fallback = new Map();

  /** @param {string} reason */
  fell(reason) {
    this.fallback.set(reason, (this.fallback.get(reason) ?? 0) + 1);
  }

  /** Exposition format 0.0.4. */
  text() {
    const lines = [
      "# HELP offload_success_total Calls of a loop that ran on the GPU.",
      "# TYPE offload_success_total counter",
      `offload_success_total ${this.success}`,
      "# HELP offload_fallback_total Calls of a loop that ran as they were, by reason.",
      "# TYPE offload_fallback_total counter",
      ...[...this.fallback].sort().map(([reason, n]) => `offload_fallback_total{reason="${reason}"} ${n}`),
    ];
    return `${lines.join("\n")}\n`;
  }

  /** @returns {{success: number, fallback: Record<string, number>}} */
  json() {
    return { success: this.success, fallback: Object.fromEntries(this.fallback) };
  }
}
