package sim

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/test/sim/api"
)

// What a workload may cost.
const (
	// writesPerMinute while demand and objects stand still.
	writesPerMinute = 0.1
	// savedWrites is how many may come at once after a quiet time.
	savedWrites = 30
	// perResize are for each resize that was accepted, perPod for each pod that came, went or was restarted,
	// perChange for each change of what decides, perFault for each call that failed.
	perResize, perPod, perChange, perFault = 8, 4, 8, 3
	// perRefusal is for each resize that was refused, with the record that is written before and taken away after it.
	// How often one is tried again is for repeats to bound.
	perRefusal = 4
	// perTarget is for each time that the policy loop moves the targets: it writes them, and the workload loop that it
	// has seen them. That may come targetsPerHour times within an hour, as in the first days, when each step of usage
	// counts; more of them have to do with the writes above.
	perTarget, targetsPerHour = 2, 9
)

// calm: the operator writes at most 0.1 times per workload and minute while demand and objects stand still, and a
// few times for each event otherwise.
type calm struct {
	deaf
	*scene
	of map[types.NamespacedName]*budget
}

// budget of one workload's writes.
type budget struct {
	left  float64
	at    time.Time
	spent map[string]int
	told  bool
	// targets is how many were moved since a time.
	targets int
	since   time.Time
}

func newCalm(s *scene) *calm { return &calm{scene: s, of: map[types.NamespacedName]*budget{}} }

func (c *calm) budget(of types.NamespacedName) *budget {
	b := c.of[of]
	if b == nil {
		b = &budget{left: savedWrites, at: c.now(), spent: map[string]int{}}
		c.of[of] = b
	}
	b.left = min(max(savedWrites, b.left), b.left+writesPerMinute*c.now().Sub(b.at).Minutes())
	b.at = c.now()
	return b
}

func (c *calm) grant(of types.NamespacedName, n float64) {
	if of.Name != "" {
		c.budget(of).left += n
	}
}

func (c *calm) grantAll(n float64) {
	for of := range c.of {
		c.grant(of, n)
	}
}

func (c *calm) wrote(w api.Write) {
	namespace, name, _ := strings.Cut(w.Key, "/")
	of := c.workloadOf(w.Kind, types.NamespacedName{Namespace: namespace, Name: name})
	if !strings.HasPrefix(w.Actor, "attune") || of.Name == "" {
		return
	}
	b := c.budget(of)
	switch {
	case w.Verb == "patch/resize" && w.Changed:
		b.left += perResize
	case w.Verb == "patch/resize" && w.Answer != nil:
		b.left += perRefusal
	}
	if w.Verb == "patch" && w.Actor == "attune/policy" && w.Changed {
		c.moved(b)
	}
	b.left--
	b.spent[w.Verb]++
	if b.left < 0 && !b.told {
		b.told = true
		c.violate("calm", of.String(), "%s is written too often: %v", of, b.spent)
	}
}

func (c *calm) moved(b *budget) {
	if c.now().Sub(b.since) >= time.Hour {
		b.since, b.targets = c.now(), 0
	}
	if b.targets++; b.targets <= targetsPerHour {
		b.left += perTarget
	}
}

func (c *calm) changed(e api.Event) {
	switch o := e.Object.(type) {
	case *corev1.Pod:
		of := c.workloadOf("Pod", types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
		old, _ := e.Old.(*corev1.Pod)
		if e.Type != watch.Modified || restarts(o) != restarts(old) || o.Status.Phase != old.Status.Phase || (o.DeletionTimestamp == nil) != (old.DeletionTimestamp == nil) {
			c.grant(of, perPod)
		}
	}
}

func restarts(pod *corev1.Pod) (n int32) {
	for _, s := range pod.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

func (c *calm) faulted(call api.Call, _ error) {
	c.grant(c.workloadOf(call.Kind, call.Key), perFault)
}

func (c *calm) disturbed(string) { c.grantAll(perChange) }
