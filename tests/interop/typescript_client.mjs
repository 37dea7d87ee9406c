// Drives the TypeScript SDK's client. One JSON argument:
//   entry   an `mcpServers` entry, or one with type "streamable-http" or "sse" and a url
//   mode    "legacy", or "auto" for the newest protocol both sides know
//   answer  what the person says to a form: true or false; absent for a client without elicitation
//   calls   [[tool, arguments], ...], made one after the other
// Prints JSON: protocol, tools, questions (what the person was asked), results ({error} for a protocol error).
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const { entry, mode, answer, calls } = JSON.parse(process.argv[2]);
const asks = answer !== undefined;
const client = new Client(
    { name: 'typescript-interop', version: '1' },
    { capabilities: asks ? { elicitation: { form: {} } } : {}, versionNegotiation: { mode } }
);
const questions = [];
if (asks) {
    client.setRequestHandler('elicitation/create', async request => {
        questions.push(request.params.message);
        return answer ? { action: 'accept', content: { approve: true } } : { action: 'decline' };
    });
}
const transport =
    entry.type === 'streamable-http'
        ? new StreamableHTTPClientTransport(new URL(entry.url))
        : entry.type === 'sse'
          ? new SSEClientTransport(new URL(entry.url))
          : new StdioClientTransport({ command: entry.command, args: entry.args, stderr: 'inherit' });
await client.connect(transport);
const { tools } = await client.listTools();
const results = [];
for (const [name, args] of calls) {
    try {
        results.push(await client.callTool({ name, arguments: args }));
    } catch (error) {
        results.push({ error: { code: error.code, message: error.message } });
    }
}
const protocol = client.getNegotiatedProtocolVersion();
await client.close();
console.log(JSON.stringify({ protocol, tools: tools.map(tool => tool.name), questions, results }));
