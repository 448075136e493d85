// SPDX-License-Identifier: MIT
// The demo page: starts rlx, shows which devices there are, and runs the two tabs.
// In the address: ?device=cpu or ?device=webgpu chooses, ?load loads the model at once.
import { init } from '../rlx.mjs';
import { Chat } from './chat.mjs';
import { Search } from './search.mjs';
import { $, explain, make, setState } from './ui.mjs';

const MODELS = {
    chat: { path: 'smollm2-135m-instruct.gguf' },
    search: { path: 'all-minilm-l6-v2/model.safetensors' },
};
const TITLES = { webgpu: 'WebGPU', cpu: 'CPU' };
const query = new URLSearchParams(location.search);

const app = {
    rlx: null,
    device: 'cpu',
    devices: [],
    tabs: {},

    settings() {
        return { temperature: Number($('#temperature').value),
                 maxTokens: Number($('#max-tokens').value) };
    },

    stats({ load = '–', first = '–', speed = '–', count = '–' }) {
        $('#stat-load').textContent = load;
        $('#stat-first').textContent = first;
        $('#stat-speed').textContent = speed;
        $('#stat-count').textContent = count;
    },

    labels(first, speed, count) {
        $('#stat-first-label').textContent = first;
        $('#stat-speed-label').textContent = speed;
        $('#stat-count-label').textContent = count;
    },

    selectDevice(id) {
        this.device = id;
        $(`#device-${id}`).checked = true;
        $('#device-pill').textContent = id === 'webgpu' ? 'WebGPU' : 'CPU · WebAssembly';
    },
};

// ---- Devices ------------------------------------------------------------------------------------

function deviceDetail({ id, available, reason, name, software }) {
    if (!available) return `Not here: ${reason}.`;
    if (id === 'cpu') return 'WebAssembly with SIMD; works in every browser.';
    return software ? `${name}: an emulated GPU, slower than the CPU.` : name;
}

function showDevice(device) {
    const radio = make('input', { type: 'radio', name: 'device', id: `device-${device.id}`,
                                  value: device.id, disabled: !device.available });
    radio.onchange = async () => {
        app.selectDevice(device.id);
        for (const tab of Object.values(app.tabs)) await tab.loader.reload();
    };
    return make('label', { className: 'device' }, radio,
                make('span', { className: 'title', textContent: TITLES[device.id] }),
                make('span', { className: 'badge',
                               textContent: device.available ? 'available' : 'not available' }),
                make('span', { className: 'detail', textContent: deviceDetail(device) }));
}

function chooseDevice(devices) {
    const wanted = devices.find(({ id, available }) => id === query.get('device') && available);
    if (wanted) return wanted.id;
    return devices.find(({ available, software }) => available && !software).id;
}

function deviceNote([gpu]) {
    if (!gpu.available)
        return 'WebGPU is missing here, so the CPU computes, which is slower.';
    return '';
}

async function showDevices() {
    app.devices = await app.rlx.devices();
    $('.devices').append(...app.devices.map(showDevice));
    const note = deviceNote(app.devices);
    $('#notice').textContent = note;
    $('#notice').hidden = !note;
    app.selectDevice(chooseDevice(app.devices));
}

// ---- Models on the server -----------------------------------------------------------------------

async function findModels() {
    let list = [];
    try {
        const response = await fetch('../models/index.json');
        list = response.ok ? await response.json() : [];
    } catch {
        // Offline: what is stored in the browser can still be used.
    }
    for (const model of Object.values(MODELS)) {
        model.url = new URL(`../models/${model.path}`, location.href).href;
        model.bytes = list.find(({ path }) => path === model.path)?.bytes;
        if (!model.bytes && !await app.rlx.isStored(model.url))
            model.missing = 'This model is not on the server (./run web-demo fetches it when it '
                + 'has a network). You can open a file of yours.';
    }
}

// ---- Tabs ---------------------------------------------------------------------------------------

function showTab(name) {
    for (const button of document.querySelectorAll('[role=tab]')) {
        const isChosen = button.id === `tab-${name}`;
        button.setAttribute('aria-selected', isChosen);
        button.tabIndex = isChosen ? 0 : -1;
        $(`#${button.getAttribute('aria-controls')}`).hidden = !isChosen;
    }
    $('#chat-settings').hidden = name !== 'chat';
    app.tabs[name]?.showStats();
}

function startTabs() {
    const buttons = [...document.querySelectorAll('[role=tab]')];
    buttons.forEach((button, i) => {
        button.onclick = () => { location.hash = button.id.replace('tab-', ''); };
        button.onkeydown = ({ key }) => {
            const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
            if (!step) return;
            const next = buttons[(i + step + buttons.length) % buttons.length];
            next.focus();
            next.click();
        };
    });
    const current = () => location.hash === '#search' ? 'search' : 'chat';
    window.onhashchange = () => showTab(current());
    showTab(current());
    return current();
}

function startSettings() {
    const show = () => {
        $('#temperature-value').textContent = Number($('#temperature').value).toFixed(1);
        const most = Number($('#max-tokens').value);
        $('#max-tokens-value').textContent = most ? `${most} tokens` : 'no limit';
    };
    $('#temperature').oninput = $('#max-tokens').oninput = show;
    show();
    $('#forget').onclick = async () => {
        await app.rlx.forget();
        $('#storage-note').textContent = 'The stored models were removed from this browser.';
        Object.values(app.tabs).forEach(tab => tab.loader.describe());
    };
    if (matchMedia('(max-width: 859px)').matches) $('.options').open = false;
}

// ---- Without a network --------------------------------------------------------------------------

/** Lets the service worker keep the page; it says when a newer one is stored. */
function keepPage() {
    const { serviceWorker } = navigator;
    if (!serviceWorker) return; // an insecure page
    serviceWorker.onmessage = ({ data }) => { $('#update').hidden = data !== 'updated'; };
    $('#update .link').onclick = () => location.reload();
    serviceWorker.register(new URL('../sw.js', import.meta.url)).catch(() => {
        // Storage is switched off: the page works, with a network only.
    });
}

// ---- Start --------------------------------------------------------------------------------------

async function start() {
    startSettings();
    keepPage();
    app.rlx = await init();
    $('#about').textContent = `rlx ${app.rlx.version}`;
    await showDevices();
    await findModels();
    app.tabs = { chat: new Chat(app, MODELS.chat), search: new Search(app, MODELS.search) };
    const tab = startTabs();
    setState('idle');
    if (query.has('load') && !MODELS[tab].missing) await app.tabs[tab].loader.load(MODELS[tab].url);
}

start().catch(error => {
    setState('failed');
    $('#device-pill').textContent = 'failed';
    $('main').prepend(make('div', { className: 'card problem', role: 'alert' },
        make('p', { textContent: `The page could not start: ${explain(error)}` })));
});
