/** Commands to the GPU bridge as 32-bit words, with the bytes of its writes (docs/webgpu.md). */

const CREATE = 1;
const DESTROY = 2;
const WRITE = 3;
const DISPATCH = 4;
const COPY = 5;
const STAMP = 6;
const WORDS_OF_A_BINDING = 5;

const FIRST_WORDS = 4096;
/** A batch as long as this should go: the GPU waits for it. */
const LONG_WORDS = 1 << 16;
const LONG_BYTES = 8 * 2 ** 20;
const WORD = 2 ** 32;

/** @typedef {{id: number}} Numbered */

export class Batch {
  #words = new Uint32Array(FIRST_WORDS);
  #used = 0;
  #bytes = 0;
  /** @type {Uint8Array[]} */ #writes = [];

  get isEmpty() {
    return this.#used === 0;
  }

  get isLong() {
    return this.#used >= LONG_WORDS || this.#bytes >= LONG_BYTES;
  }

  /** @param {number} id @param {number} nbytes */
  create(id, nbytes) {
    this.#put(CREATE, id, ...wide(nbytes));
  }

  /** @param {number} id */
  destroy(id) {
    this.#put(DESTROY, id);
  }

  /** @param {number} id @param {number} offset @param {Uint8Array} bytes kept until `take` */
  write(id, offset, bytes) {
    this.#put(WRITE, id, ...wide(offset), this.#writes.length);
    this.#writes.push(bytes);
    this.#bytes += bytes.length;
  }

  /**
   * @param {number} pipeline
   * @param {readonly [number, number, number]} workgroups
   * @param {Uint32Array} bindings from `packBindings`
   */
  dispatch(pipeline, [x, y, z], bindings) {
    this.#put(DISPATCH, pipeline, x, y, z, bindings.length / WORDS_OF_A_BINDING);
    this.#room(bindings.length);
    this.#words.set(bindings, this.#used);
    this.#used += bindings.length;
  }

  /** @param {number} from @param {number} fromOffset @param {number} to @param {number} toOffset @param {number} nbytes */
  copy(from, fromOffset, to, toOffset, nbytes) {
    this.#put(COPY, from, ...wide(fromOffset), to, ...wide(toOffset), ...wide(nbytes));
  }

  /** @param {number} index */
  stamp(index) {
    this.#put(STAMP, index);
  }

  /** The blobs of a frame, words first; empties the batch. */
  take() {
    const words = new Uint8Array(this.#words.buffer, 0, 4 * this.#used).slice();
    const blobs = [words, ...this.#writes];
    this.#used = this.#bytes = 0;
    this.#writes = [];
    return blobs;
  }

  /** @param {number[]} words */
  #put(...words) {
    this.#room(words.length);
    for (const word of words) this.#words[this.#used++] = word;
  }

  /** @param {number} more words that are to come */
  #room(more) {
    if (this.#used + more <= this.#words.length) return;
    const larger = new Uint32Array(2 * this.#words.length);
    larger.set(this.#words);
    this.#words = larger;
  }
}

/** @param {readonly {buffer: unknown, offset: number, size: number}[]} bindings */
export const packBindings = (bindings) =>
  Uint32Array.from(bindings.flatMap(({ buffer, offset, size }) => [/** @type {Numbered} */ (buffer).id, ...wide(offset), ...wide(size)]));

/** @param {number} n @returns {[number, number]} low word, high word */
const wide = (n) => [n % WORD, Math.floor(n / WORD)];
