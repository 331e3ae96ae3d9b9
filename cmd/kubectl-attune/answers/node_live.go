package answers

import (
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/decision"
	"attune.io/attune/internal/workload"
)

// LiveNode is the answer of node about a node of the cluster. From the leader it has the last decision. Without
// the leader it is made of pods and recommendations: grants and gates are not known then, and a container gets the
// size of its open resize, else what it holds. The words are those of the web page (package decision).
type LiveNode struct {
	// Node is the JSON of the answer. Its Decided is nil where no leader answered.
	decision.Node
	// Now is the time from which the age of the decision counts.
	Now time.Time `json:"-"`
}

// Human writes the answer for people.
// It writes a line about the node, a table of the containers, with -o wide the computation, and then evictions and
// what the node is short of.
func (a LiveNode) Human(w io.Writer, wide bool) error {
	if _, err := fmt.Fprintf(w, "%s\n\n", a.Sentence(a.Now)); err != nil {
		return err
	}
	if err := Write(w, a.Containers(), wide); err != nil {
		return err
	}
	if a.Decided != nil && wide {
		if err := WriteBelow(w, a.Computation(), wide); err != nil {
			return err
		}
	}
	if err := WriteBelow(w, a.Leaving(), wide); err != nil {
		return err
	}
	return a.shortness(w)
}

// shortness writes that the pods do not fit, and which pods keep more than their share.
func (a LiveNode) shortness(w io.Writer) error {
	var text strings.Builder
	if sentence := a.Overcommitted(); sentence != "" {
		fmt.Fprintf(&text, "\n%s\n", sentence)
	}
	for i, sentence := range a.Holders() {
		if i == 0 {
			fmt.Fprintf(&text, "\n%s\n", decision.HoldersHead)
		}
		fmt.Fprintf(&text, "  %s\n", sentence)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// StoredNode computes the answer from objects (decision.Stored, as the web page does). It has no grants and no Decided: these
// are the leader's.
func StoredNode(node *corev1.Node, pods []corev1.Pod, recommendations []v1alpha1.AttuneRecommendation) decision.Node {
	of := map[types.NamespacedName]*v1alpha1.AttuneRecommendation{}
	for i := range recommendations {
		of[types.NamespacedName{Namespace: recommendations[i].Namespace, Name: recommendations[i].Name}] = &recommendations[i]
	}
	all := make([]*corev1.Pod, len(pods))
	for i := range pods {
		all[i] = &pods[i]
	}
	return decision.Stored(node, all, func(pod *corev1.Pod) *v1alpha1.AttuneRecommendation {
		// The owner is found from the pod alone, by the rule that the operator uses.
		id, ok := workload.OwnerOf(pod, pod.Namespace, nil)
		if !ok {
			return nil
		}
		return of[types.NamespacedName{Namespace: id.Namespace, Name: id.RecommendationName()}]
	})
}
