/** An error with its next step; it crosses worker and link as `{error, hint}`. */
export class EngineError extends Error {
  /**
   * @param {string} error what failed, on which object: one sentence
   * @param {string} [hint] what to do next: one sentence, may be empty
   */
  constructor(error, hint = "") {
    super(hint ? `${error} ${hint}` : error);
    this.name = "EngineError";
    this.error = error;
    this.hint = hint;
  }
}

/**
 * @param {unknown} thrown
 * @returns {{error: string, hint: string}}
 */
export function errorFields(thrown) {
  if (thrown instanceof EngineError) return { error: thrown.error, hint: thrown.hint };
  return { error: thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown), hint: "" };
}
