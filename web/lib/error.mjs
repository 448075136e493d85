// SPDX-License-Identifier: MIT
// The error of rlx, the same on the page and in the worker.

/** What went wrong: `status` is the word of the library ("invalid", "no device", ...), `message`
 *  a sentence that names the object, what was expected and what was found. */
export class RlxError extends Error {
    constructor(status, message) {
        super(message);
        this.name = 'RlxError';
        this.status = status;
    }
}

/** The error of a caller who asked to stop. */
export function cancelled(what) {
    return new RlxError('cancelled', `${what} was stopped by the caller`);
}

/** An error as plain data that a message can carry, and back. */
export function packError(error) {
    const status = error instanceof RlxError ? error.status
        : error?.name === 'AbortError' ? 'cancelled' : 'internal error';
    return { status, message: error?.message ?? String(error), stack: error?.stack };
}

export function unpackError({ status, message }) {
    return new RlxError(status, message);
}
