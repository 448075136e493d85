// SPDX-License-Identifier: MIT
// What a web developer does with rlx, as checks that run under node and in a browser. Each gives
// nothing or throws.

function expect(condition, what) {
    if (!condition) throw new Error(what);
}

function near(got, expected, what, limit = 1e-5) {
    expect(got.length === expected.length, `${what}: ${got.length} values, not ${expected.length}`);
    got.forEach((value, i) => expect(Math.abs(Number(value) - expected[i]) <= limit,
                                     `${what}[${i}]: expected ${expected[i]}, got ${value}`));
}

async function expectError(promise, status, text) {
    try {
        await promise;
    } catch (error) {
        expect(error.name === 'RlxError', `expected an RlxError, got ${error.stack}`);
        expect(error.status === status, `expected '${status}', got '${error.status}': ${error}`);
        expect(error.message.includes(text), `no '${text}' in: ${error.message}`);
        return;
    }
    throw new Error(`expected a failure with '${text}'`);
}

const DISTANCE = `graph "distance" {
  %a: f32[3,2] = input "a"
  %b: f32[2] = param "b"
  %d = sub(%a, %b)
  %n = reduce_l2(%d) {axes=[1]}
  output "distance" = %n
}`;

// An ONNX model: y = x + x for x of [n].
const DOUBLE = new Uint8Array([
    8, 7, 18, 0, 58, 55, 10, 14, 10, 1, 120, 10, 1, 120, 18, 1, 121, 34, 3, 65, 100, 100, 18, 1,
    103, 90, 16, 10, 1, 120, 18, 11, 10, 9, 8, 1, 18, 5, 10, 3, 18, 1, 110, 98, 16, 10, 1, 121,
    18, 11, 10, 9, 8, 1, 18, 5, 10, 3, 18, 1, 110, 66, 4, 10, 0, 16, 13
]);

const NAMED = `graph "named" {
  dim n <= 8
  %x: f32[n] = input "x"
  %y = mul(%x, %x)
  output "y" = %y
}`;

const COUNTER = `graph "counter" {
  %s: i32[1] = state "count"
  %one: i32[1] = input "step"
  %next = add(%s, %one)
  %zero: i32[] = constant [0]
  %w = state_write(%s, %next, %zero) {axis=0}
  output "count" = %next
}`;

const checks = {
    async devices(rlx) {
        const devices = await rlx.devices();
        expect(devices.length === 2, 'two devices are listed');
        expect(devices.find(({ id }) => id === 'cpu').available, 'the CPU is always there');
        for (const { id, available, reason } of devices)
            expect(available || reason, `${id} says why it is missing`);
    },

    async loadGraph(rlx, device) {
        const graph = await rlx.loadGraph(DOUBLE, { device, dims: { n: 3 } });
        expect(graph.inputs[0].shape.join() === '3', `shape ${graph.inputs[0].shape}`);
        const { y } = await graph.run({ x: [1, 2, -3] });
        near([...y], [2, 4, -6], 'y');
        await graph.close();
        await expectError(graph.run({}), 'invalid', 'closed');
        await expectError(rlx.loadGraph(new Uint8Array([255, 255, 3]), { device }), 'malformed',
                          'the model');
        await expectError(rlx.loadGraph(DOUBLE, { device, dim: { n: 3 } }), 'invalid', 'dim');
    },

    async runGraph(rlx, device) {
        const graph = await rlx.graph(DISTANCE, { device, params: { b: [0, 0] } });
        expect(graph.device === device, `it runs on ${graph.device}`);
        expect(graph.inputs[0].shape.join() === '3,2', 'shape of the input');
        const { distance } = await graph.run({ a: [3, 4, 0, 0, 6, 8] });
        expect(distance instanceof Float32Array, 'f32 gives a Float32Array');
        near([...distance], [5, 0, 10], 'distance');
        const again = await graph.run({ a: new Float32Array([1, 0, 0, 2, 0, 0]) });
        near([...again.distance], [1, 2, 0], 'distance of the second run');
        await graph.close();
        await expectError(graph.run({}), 'invalid', 'closed');
    },

    async namedDimensions(rlx, device) {
        const graph = await rlx.graph(NAMED, { device });
        for (const n of [1, 5, 8, 3]) {
            const x = Array.from({ length: n }, (_, i) => i - 2);
            const { y } = await graph.run({ x }, { dims: { n } });
            near([...y], x.map(v => v * v), `y of ${n}`);
        }
        await graph.close();
    },

    async state(rlx, device) {
        const graph = await rlx.graph(COUNTER, { device });
        for (const expected of [2, 4, 6])
            near([...(await graph.run({ step: [2] })).count], [expected], 'count');
        await graph.reset();
        near([...(await graph.run({ step: [5] })).count], [5], 'count after reset');
        await graph.close();
    },

    async mistakes(rlx, device) {
        await expectError(rlx.graph('graph "x" {\n  %y = sofmax(%x)\n}', { device }), 'malformed',
                          'line 2, column 8');
        const graph = await rlx.graph(DISTANCE, { device, params: { b: [1, 1] } });
        await expectError(graph.run({ c: [1] }), 'not found', "no input 'c'");
        await expectError(graph.run({ a: [1, 2, 3] }), 'invalid', "'a'");
        await graph.close();
        await expectError(rlx.graph(DISTANCE, { device: 'tpu' }), 'invalid', "'tpu'");
        await expectError(rlx.load(new Uint8Array([1, 2, 3, 4, 5]), { device }), 'malformed', '');
        await expectError(rlx.load('http://127.0.0.1:9/none.gguf', { device, cache: false }),
                          'input/output error', 'none.gguf');
    },

    async sameAtOnce(rlx, device) {
        const graph = await rlx.graph(DISTANCE, { device, params: { b: [0, 0] } });
        const runs = [1, 2, 3].map(v => graph.run({ a: [3 * v, 4 * v, 0, 0, 0, v] }));
        const closed = graph.close();
        (await Promise.all(runs)).forEach(({ distance }, i) =>
            near([...distance], [5 * (i + 1), 0, i + 1], `run ${i}`));
        await closed;
    },

    async manyAtOnce(rlx, device) {
        const graphs = await Promise.all([1, 2, 3].map(v =>
            rlx.graph(DISTANCE, { device, params: { b: [v, v] } })));
        const results = await Promise.all(graphs.map(g => g.run({ a: [1, 1, 2, 2, 3, 3] })));
        results.forEach(({ distance }, i) =>
            near([...distance], [0, 1, 2].map(k => Math.hypot(k - i, k - i)), `graph ${i}`));
        await Promise.all(graphs.map(g => g.close()));
    },
};

/** Runs every check; gives the failures as sentences. */
export async function checkApi(rlx, device) {
    const failures = [];
    for (const [name, check] of Object.entries(checks)) {
        try {
            await check(rlx, device);
        } catch (error) {
            failures.push(`${name} on ${device}: ${error.message}`);
        }
    }
    return { count: Object.keys(checks).length, failures };
}
