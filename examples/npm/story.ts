// SPDX-License-Identifier: MIT
// A model that tells a story, piece by piece: node story.js MODEL.gguf, or in a page with a URL.
import { init, RlxError, type Model } from 'rlx';

export async function tell(model: Model, prompt: string, show: (text: string) => void):
    Promise<number> {
    for await (const { text } of model.generate(prompt, { maxTokens: 40, temperature: 0.7, seed: 1 }))
        show(text);
    const { text, tokens } = await model.generate([{ role: 'user', content: 'More!' }],
                                                  { maxTokens: 10 });
    show(text);
    return tokens;
}

export async function main(path: string, show: (text: string) => void): Promise<void> {
    const rlx = await init();
    try {
        const model = await rlx.load(path, { device: 'cpu' });
        await tell(model, 'Once upon a time', show);
        await model.close();
    } catch (error) {
        if (error instanceof RlxError) show(`${error.status}: ${error.message}`);
        else throw error;
    } finally {
        rlx.close();
    }
}
