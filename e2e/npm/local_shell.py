"""A local shell of the Python Agents SDK against a gateway: local_shell.py URL KEY MODEL. Prints what the client saw, as JSON."""
import asyncio
import json
import subprocess
import sys

from agents import Agent, OpenAIProvider, RunConfig, Runner, ShellCallOutcome, ShellCommandOutput, ShellResult, ShellTool, set_tracing_disabled

set_tracing_disabled(True)
asked = []


async def execute(request):
    action = request.data.action
    asked.extend(action.commands)
    output = []
    for command in action.commands:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
        output.append(ShellCommandOutput(command=command, stdout=done.stdout, stderr=done.stderr, outcome=ShellCallOutcome(type="exit", exit_code=done.returncode)))
    return ShellResult(output=output, max_output_length=action.max_output_length)


async def main(url, key, model):
    agent = Agent(name="A", model=model, instructions="Be brief.", tools=[ShellTool(executor=execute)])
    provider = OpenAIProvider(base_url=url + "/v1", api_key=key, use_responses=True)
    result = await Runner.run(agent, "what is it?", run_config=RunConfig(model_provider=provider, tracing_disabled=True))
    print(json.dumps({"asked": asked, "answer": result.final_output, "items": [item.type for item in result.new_items]}))


asyncio.run(main(*sys.argv[1:]))
