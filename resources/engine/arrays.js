/** Arrays of each dtype; f16 as its bits. @type {Readonly<Record<string, any>>} */
export const ARRAYS = Object.freeze({
  f32: Float32Array,
  f16: Uint16Array,
  i64: BigInt64Array,
  i32: Int32Array,
  i8: Int8Array,
  u8: Uint8Array,
  bool: Uint8Array,
});
