package sim

import (
	"context"
	"fmt"
	"time"

	"attune.io/attune/test/kubelet"
)

// accidents are what happens to nodes, by name.
var accidents = map[string]func(w *world, t trouble){
	"node cut off": func(w *world, t trouble) {
		w.onNode(t.Which, func(n *kubelet.Node) { n.Cut(w.time.now) }, t.For, "a node is heard again", func(n *kubelet.Node) {
			w.must(n.Start(context.Background(), w.time.now))
		})
	},
	"node rebooted": func(w *world, t trouble) {
		w.onNode(t.Which, func(n *kubelet.Node) { n.Cut(w.time.now) }, t.For/10, "a node has booted", func(n *kubelet.Node) {
			w.must(n.Boot(context.Background(), w.time.now))
		})
	},
	"node replaced": func(w *world, t trouble) {
		nodes := w.cluster.Nodes()
		if len(nodes) < 2 {
			return
		}
		w.must(w.cluster.Remove(context.Background(), nodes[t.Which%len(nodes)].Name))
		w.joined++
		name := fmt.Sprintf("node-%d", w.plan.Nodes+w.joined)
		w.later(t.For, "a node joined", func() { w.cluster.join(name) })
	},
	"node drained": func(w *world, t trouble) {
		drained := func(n *kubelet.Node) { w.must(w.cluster.Drain(context.Background(), n.Name)) }
		w.onNode(t.Which, drained, t.For, "a node takes pods again", func(n *kubelet.Node) {
			w.must(w.cluster.Uncordon(context.Background(), n.Name))
		})
	},
}

// onNode does something to a node, and ends it a while later if the node is still there. One thing at a time happens to
// a node.
func (w *world) onNode(which int, begin func(*kubelet.Node), d time.Duration, what string, end func(*kubelet.Node)) {
	nodes := w.cluster.Nodes()
	n := nodes[which%len(nodes)]
	if w.troubled[n.Name] {
		return
	}
	w.troubled[n.Name] = true
	begin(n)
	w.cluster.wake(0)
	w.later(d, what, func() {
		delete(w.troubled, n.Name)
		if w.cluster.Node(n.Name) == n {
			end(n)
		}
		w.cluster.wake(0)
	})
}

// succeed has a second process lead while the first one goes on for a moment.
func (w *world) succeed(d time.Duration) {
	old := w.leader
	if old == nil {
		return
	}
	w.start()
	w.time.after(d, func() {
		if !old.dead {
			old.kill()
		}
	})
}
