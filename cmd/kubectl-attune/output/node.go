package output

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// LiveNode is the answer of node about a node of the cluster. From the leader it has the last decision. Without the
// leader it comes from pods and recommendations: grants and gates are not known, and a container gets the size of its
// in-flight resize, or its present size. The web page uses the same texts (package internal/answers).
type LiveNode struct {
	// NodeAnswer is the JSON of the answer. Its Decided is nil without an answer of the leader.
	answers.NodeAnswer
	// Now is the reference time for the age of the decision.
	Now time.Time `json:"-"`
}

// Human writes the answer for people: a line about the node, a table of the containers, with -o wide the computation,
// then evictions and the shortages of the node.
func (a LiveNode) Human(wide bool) (string, error) {
	text := a.Sentence(a.Now) + "\n\n" + Text(a.Containers(), wide)
	if a.Decided != nil && wide {
		text += Below(a.Computation(), wide)
	}
	text += Below(a.Leaving(), wide)
	if sentence := a.Overcommitted(); sentence != "" {
		text += "\n" + sentence + "\n"
	}
	// The missing resources, and the pods that keep more than their share.
	for i, sentence := range a.Holders() {
		if i == 0 {
			text += "\n" + answers.HoldersHead + "\n"
		}
		text += "  " + sentence + "\n"
	}
	return text, nil
}

// StoredNode computes the answer from objects by answers.StoredNode, as the web page does. It has no grants and no
// Decided, because only the leader knows them.
func StoredNode(node *corev1.Node, pods []corev1.Pod, recommendations []v1alpha1.AttuneRecommendation) answers.NodeAnswer {
	of := map[types.NamespacedName]*v1alpha1.AttuneRecommendation{}
	for i := range recommendations {
		of[types.NamespacedName{Namespace: recommendations[i].Namespace, Name: recommendations[i].Name}] = &recommendations[i]
	}
	return answers.StoredNode(node, podview.Pointers(pods), func(pod *corev1.Pod) *v1alpha1.AttuneRecommendation {
		// OwnerOf finds the owner from the pod alone, by the operator's rule.
		id, ok := workload.OwnerOf(pod, pod.Namespace, nil)
		if !ok {
			return nil
		}
		return of[types.NamespacedName{Namespace: id.Namespace, Name: id.RecommendationName()}]
	})
}

// NodeFile is the answer of node --file. Its JSON, with -o json:
//
//	{"pods": [{"name": "shop/web-1", "containers": [{
//	  "name": "app", "cpuRequest": "800m",
//	  "memoryRequest": "600Mi", "memoryLimit": "1200Mi"
//	}]}],
//	 "evictions": [{"name": "shop/batch-1", "reason": "…"}],
//	 "overcommitted": false}
type NodeFile struct {
	// Pods are the pods that stay, sorted by name; never nil.
	Pods []nodePod `json:"pods"`
	// Evictions are in the order in which they would be made; never nil.
	Evictions []nodeEviction `json:"evictions"`
	// Overcommitted is true if the pods do not fit and no pod may be evicted to make them fit.
	Overcommitted bool `json:"overcommitted"`

	// said has the evictions and the steps of the grants. They are written like the ones of a node in the cluster.
	said answers.NodeAnswer
}

// nodePod is a pod that stays on the node.
type nodePod struct {
	// Name is NAMESPACE/NAME as in the file.
	Name string `json:"name"`
	// Containers are in the order of the file.
	Containers []nodeContainer `json:"containers"`
}

// nodeContainer is the grant of a container. An amount is nil if the file has no demand for the resource.
type nodeContainer struct {
	// Name of the container.
	Name string `json:"name"`
	// CPURequest, MemoryRequest and MemoryLimit are quantities.
	CPURequest *string `json:"cpuRequest"`
	// MemoryRequest is the grant of memory.
	MemoryRequest *string `json:"memoryRequest"`
	// MemoryLimit is nil if the grant has none.
	MemoryLimit *string `json:"memoryLimit"`

	// demand is the container's demand in the file.
	demand node.Container
}

// nodeEviction is a pod that would be evicted.
type nodeEviction struct {
	// Name is the name of the pod.
	Name string `json:"name"`
	// Reason is the recommender's sentence.
	Reason string `json:"reason"`
}

// NewNodeFile builds the answer from a result. The grants are in the order of all containers of all pods. steps
// returns the steps of one container.
func NewNodeFile(demands input.Demands, result node.Result, steps func(pod, container int) []recommender.Step) NodeFile {
	answer := NodeFile{Pods: []nodePod{}, Evictions: []nodeEviction{}, Overcommitted: result.Overcommitted != [2]bool{}}
	gone := map[int]bool{}
	for _, v := range result.Evictions {
		gone[v.Pod] = true
		answer.Evictions = append(answer.Evictions, nodeEviction{Name: v.Name, Reason: v.Reason()})
		answer.said.Evictions = append(answer.said.Evictions, answers.NodeEviction{Name: v.Name, Reason: v.Reason(), Ranking: v.Ranking.String()})
	}
	// result.Grants is one flat list over the containers of all pods, including evicted ones.
	first := 0
	for i, p := range demands.Pods {
		grants := result.Grants[first : first+len(p.Containers)]
		first += len(grants)
		// An evicted pod has grants in the result, but they are not shown.
		if gone[i] {
			continue
		}
		pod, said := nodePod{Name: p.Name}, answers.NodePod{Name: p.Name}
		for j, g := range grants {
			measured := demands.Measured[i][j]
			c := answers.NodeContainer{Name: p.Containers[j].Name}
			for _, s := range steps(i, j) {
				if measured[s.Resource] { // otherwise the container keeps its resources, and the step explains nothing
					c.Steps = append(c.Steps, answers.StepOf(s))
				}
			}
			pod.Containers, said.Containers = append(pod.Containers, newNodeContainer(p.Containers[j], g, measured)), append(said.Containers, c)
		}
		answer.Pods, answer.said.Pods = append(answer.Pods, pod), append(answer.said.Pods, said)
	}
	slices.SortFunc(answer.Pods, func(a, b nodePod) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(answer.said.Pods, func(a, b answers.NodePod) int { return cmp.Compare(a.Name, b.Name) })
	return answer
}

// newNodeContainer formats one grant. A resource that was not measured stays nil.
func newNodeContainer(demand node.Container, g node.Grant, measured [2]bool) nodeContainer {
	c := nodeContainer{Name: demand.Name, demand: demand}
	request := answers.QuantitiesOf(g.Request, measured)
	c.CPURequest, c.MemoryRequest = request.CPU, request.Memory
	if g.MemoryLimit > 0 {
		c.MemoryLimit = new(recommender.Format(recommender.Memory, g.MemoryLimit))
	}
	return c
}

// Human writes the answer for people: a table of the pods, and with -o wide the computation. Evictions and a sentence
// about overcommitment follow if there are any.
func (a NodeFile) Human(wide bool) (string, error) {
	text := Text(a.table(), wide)
	if wide {
		text += Below(a.said.Computation(), wide)
	}
	text += Below(a.said.Leaving(), wide)
	if a.Overcommitted {
		text += "\n" + answers.OvercommittedText + "\n"
	}
	return text, nil
}

// table has one row for each container: its present requests, its demand and its grant.
func (a NodeFile) table() answers.Table {
	t := answers.Table{Header: []string{"POD", "CONTAINER", "CPU", "CPU BASE", "CPU PEAK", "CPU GRANT", "MEMORY", "MEMORY PEAK", "MEMORY GRANT", "MEMORY LIMIT"}}
	const cpu, memory = recommender.CPU, recommender.Memory
	for _, p := range a.Pods {
		for _, c := range p.Containers {
			t.Add(p.Name, c.Name,
				orDash(cpu, c.demand.Current[cpu]), c.wanted(cpu, c.demand.Of[cpu].Base), c.wanted(cpu, c.demand.Of[cpu].Peak), answers.Cell(cpu, c.CPURequest),
				orDash(memory, c.demand.Current[memory]), c.wanted(memory, c.demand.Of[memory].Peak), answers.Cell(memory, c.MemoryRequest), answers.Cell(memory, c.MemoryLimit))
		}
	}
	return t
}

// wanted formats an amount of the demand; empty if the resource was not measured.
func (c nodeContainer) wanted(r recommender.Resource, amount recommender.Amount) string {
	if r == recommender.CPU && c.CPURequest == nil || r == recommender.Memory && c.MemoryRequest == nil {
		return ""
	}
	return answers.Readable(r, recommender.Format(r, amount))
}

// orDash formats an amount. For 0 it returns an empty text, which the table shows as a dash.
func orDash(r recommender.Resource, amount recommender.Amount) string {
	if amount == 0 {
		return ""
	}
	return answers.Readable(r, recommender.Format(r, amount))
}
