"""LangGraph with Hermes as checkpointer, store and tools: needs the package `langgraph`."""

import tempfile

from langchain_core.messages import AIMessage, SystemMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from hermes.adapters.langgraph_saver import HermesSaver
from hermes.adapters.langgraph_store import HermesStore

SAVE = {"action": "add", "target": "user", "content": "Prefers short answers."}


def model(messages):
    """Stands for a real model with the tools bound: it saves a preference, then answers."""
    if messages[-1].content.startswith("Please"):
        return AIMessage("", tool_calls=[{"name": "memory", "args": SAVE, "id": "c1"}])
    return AIMessage(f"Answer to {len(messages) - 1} messages.")


def graph_with(memory, store):
    def ask(state, config):
        prompt = memory.session(config["configurable"]["thread_id"]).system_prompt
        return {"messages": [model([SystemMessage(prompt), *state["messages"]])]}

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_node("tools", ToolNode(memory.tools()))
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", tools_condition)
    builder.add_edge("tools", "ask")
    return builder.compile(checkpointer=memory, store=store)


with tempfile.TemporaryDirectory() as home:
    thread = {"configurable": {"thread_id": "1"}}
    with HermesSaver(home) as memory:
        graph_with(memory, HermesStore(home)).invoke({"messages": "Please keep your answers short."}, thread)

    # Later, perhaps in another process: the thread goes on where it was.
    with HermesSaver(home) as memory:
        graph = graph_with(memory, HermesStore(home))
        state = graph.invoke({"messages": "How do I like answers?"}, thread)
        assert [each.type for each in state["messages"]] == ["human", "ai", "tool", "ai", "human", "ai"]
        assert [*graph.get_state_history(thread)][-1].next == ("__start__",)
        found = memory.session("1").database.search("keep answers short")
        assert found, "what was said in a thread is found like any other conversation"
        print(state["messages"][-1].content)
        new = memory.session("2")
        assert "Prefers short answers." in new.system_prompt
        memory.delete_thread("1")
        assert not graph.get_state(thread).values

    store = HermesStore(home)
    store.put(("people", "ann"), "tea", {"text": "drinks green tea in the morning"})
    store.put(("people", "ann"), "bike", {"text": "rides a bike to work"})
    assert [each.key for each in HermesStore(home).search(("people",), query="green tea")] == ["tea"]
    store.delete(("people", "ann"), "tea")
    assert HermesStore(home).get(("people", "ann"), "tea") is None
