// SPDX-License-Identifier: MIT
// A graph in text form: the distances of points from one.
import { init, type Graph } from 'rlx';

const TEXT = `graph "distance" {
  %a: f32[3,2] = input "a"
  %b: f32[2] = param "b"
  %d = sub(%a, %b)
  %n = reduce_l2(%d) {axes=[1]}
  output "distance" = %n
}`;

export async function distances(points: number[], from: [number, number]): Promise<number[]> {
    const rlx = await init();
    const graph: Graph = await rlx.graph(TEXT, { device: 'cpu', params: { b: from } });
    const { distance } = await graph.run({ a: points });
    await graph.close();
    rlx.close();
    if (!(distance instanceof Float32Array)) throw new Error('f32 gives a Float32Array');
    return [...distance];
}
