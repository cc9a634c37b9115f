// Errors for users: each message states what was got, what is expected and what to do.

export class EdgeEmbedError extends Error {
  name = "EdgeEmbedError";
}

export function check(condition, message) {
  if (!condition) throw new EdgeEmbedError(message());
}

// What to do about a file that does not fit itself.
export const AGAIN = "download the file again, or export it again";

// A value from a file or a caller, short and on one line.
export function shown(value) {
  if (ArrayBuffer.isView(value)) return `${value.constructor.name} of ${value.length} values`;
  if (Array.isArray(value)) return `[${value.slice(0, 8).map(shown).join(", ")}${value.length > 8 ? ", ..." : ""}]`;
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}
