// SPDX-License-Identifier: MIT
// Markdown to elements: headings, lists, tables, quotes, code. Nothing of a text becomes HTML, and
// nothing is loaded: images are shown as links.
import { make } from './ui.mjs';

// ---- Inline -------------------------------------------------------------------------------------

const INLINE = [
    [/^`` ?(.+?) ?``/s, (_, code) => make('code', { textContent: code })],
    [/^`([^`]+)`/, (_, code) => make('code', { textContent: code })],
    [/^\*\*(?=\S)(.+?)\*\*/s, (_, text) => make('strong', {}, ...inline(text))],
    [/^__(?=\S)(.+?)__(?!\w)/s, (_, text) => make('strong', {}, ...inline(text))],
    [/^\*(?=\S)([^*]+?)\*/s, (_, text) => make('em', {}, ...inline(text))],
    [/^_(?=\S)([^_]+?)_(?!\w)/s, (_, text) => make('em', {}, ...inline(text))],
    [/^~~(.+?)~~/s, (_, text) => make('del', {}, ...inline(text))],
    [/^!?\[([^\]]*)\]\((\S+?)(?:\s+"[^"]*")?\)/, (_, text, url) => link(text || url, url)],
    [/^<(https?:\/\/[^\s>]+)>/, (_, url) => link(url, url)],
    [/^https?:\/\/[^\s<>()]+[^\s<>().,;:!?'"]/, url => link(url, url)],
    [/^\\([\\`*_{}[\]()#+\-.!~|>])/, (_, mark) => mark],
    [/^ {2,}\n/, () => make('br')],
];

function link(text, url) {
    if (!/^https?:\/\//i.test(url)) return text;
    return make('a', { href: url, target: '_blank', rel: 'noopener noreferrer',
                       textContent: text });
}

/** Nodes and strings of a text without blocks. */
function inline(text) {
    const out = [];
    let plain = '', at = 0;
    while (at < text.length) {
        // Marks inside of words, as in snake_case, are letters.
        const inWord = text[at] === '_' && /\w/.test(text[at - 1] ?? ' ');
        const special = /[`*_~![<h\\ ]/.test(text[at]) && !inWord;
        const rest = special ? text.slice(at) : '';
        const rule = special && INLINE.find(([pattern]) => pattern.test(rest));
        if (!rule) {
            plain += text[at++];
            continue;
        }
        const found = rule[0].exec(rest);
        if (plain) out.push(plain);
        plain = '';
        out.push(rule[1](...found));
        at += found[0].length;
    }
    if (plain) out.push(plain);
    return out;
}

// ---- Blocks -------------------------------------------------------------------------------------

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const FENCE = /^\s*(`{3,}|~{3,})\s*(\S*)/;
const STARTS = [FENCE, ITEM, /^#{1,6}\s/, /^\s*>/, /^\s*([-*_])(\s*\1){2,}\s*$/];

function codeBlock(code, language) {
    const button = make('button', { type: 'button', textContent: 'Copy', className: 'copy-code' });
    button.onclick = async () => {
        await navigator.clipboard.writeText(code);
        button.textContent = 'Copied';
        setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    };
    return make('div', { className: 'block' },
                make('header', {}, make('span', { textContent: language || 'code' }), button),
                make('pre', {}, make('code', { textContent: code })));
}

function takeFence(lines) {
    const [, fence, language] = FENCE.exec(lines.shift());
    const code = [];
    while (lines.length && !lines[0].trim().startsWith(fence)) code.push(lines.shift());
    lines.shift();
    return codeBlock(code.join('\n'), language);
}

/** Items of one indentation; deeper ones belong to the item before. */
function takeList(lines) {
    const [, indent, mark] = ITEM.exec(lines[0]);
    const isOrdered = /\d/.test(mark);
    const list = make(isOrdered ? 'ol' : 'ul');
    if (isOrdered) list.start = parseInt(mark, 10);
    while (lines.length) {
        const item = ITEM.exec(lines[0]);
        if (!item || item[1].length < indent.length || /\d/.test(item[2]) !== isOrdered) break;
        lines.shift();
        const body = [item[3]], depth = item[1].length + item[2].length + 1;
        while (lines.length && (/^\s*$/.test(lines[0])
                ? /^\s{2,}\S/.test(lines[1] ?? '') : /^\s/.test(lines[0])
                && lines[0].search(/\S/) > indent.length))
            body.push(lines.shift().replace(new RegExp(`^\\s{1,${depth}}`), ''));
        const parts = blocks(body);
        const isTight = parts[0]?.tagName === 'P';
        list.append(make('li', {}, ...(isTight ? [...parts[0].childNodes, ...parts.slice(1)]
                                               : parts)));
        while (lines.length && /^\s*$/.test(lines[0]) && ITEM.test(lines[1] ?? '')) lines.shift();
    }
    return list;
}

const cells = line => line.trim().replace(/^\||\|$/g, '').split('|').map(cell => cell.trim());

function takeTable(lines) {
    const row = (tag, line) => make('tr', {}, ...cells(line).map(
        cell => make(tag, {}, ...inline(cell))));
    const head = make('thead', {}, row('th', lines.shift()));
    lines.shift();
    const body = make('tbody');
    while (lines.length && lines[0].includes('|')) body.append(row('td', lines.shift()));
    return make('div', { className: 'table' }, make('table', {}, head, body));
}

function takeQuote(lines) {
    const quoted = [];
    while (lines.length && /^\s*>/.test(lines[0]))
        quoted.push(lines.shift().replace(/^\s*> ?/, ''));
    return make('blockquote', {}, ...blocks(quoted));
}

const isTable = lines => lines[0].includes('|') && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$/
    .test(lines[1] ?? '');

function takeParagraph(lines) {
    const text = [lines.shift()];
    while (lines.length && lines[0].trim() && !STARTS.some(start => start.test(lines[0]))
            && !isTable(lines))
        text.push(lines.shift());
    return make('p', {}, ...inline(text.join('\n')));
}

function blocks(lines) {
    const out = [];
    while (lines.length) {
        const line = lines[0], heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
        if (!line.trim()) lines.shift();
        else if (FENCE.test(line)) out.push(takeFence(lines));
        else if (heading) {
            lines.shift();
            out.push(make(`h${Math.min(heading[1].length, 4)}`, {}, ...inline(heading[2])));
        } else if (STARTS[4].test(line)) {
            lines.shift();
            out.push(make('hr'));
        } else if (ITEM.test(line)) out.push(takeList(lines));
        else if (/^\s*>/.test(line)) out.push(takeQuote(lines));
        else if (isTable(lines)) out.push(takeTable(lines));
        else out.push(takeParagraph(lines));
    }
    return out;
}

/** Shows a text in Markdown inside of an element, instead of what it had. */
export function showMarkdown(element, text) {
    element.replaceChildren(...blocks(text.split('\n')));
}
