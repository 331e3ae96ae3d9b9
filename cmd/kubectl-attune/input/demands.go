package input

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// Demands are the input of node.Sharer.Share.
type Demands struct {
	// Available is the node's capacity for the pods, in millicores and bytes: allocatable in the file.
	Available node.Amounts
	// Pods are in the order of the file.
	Pods []node.Pod
	// Measured[i][j][r] is true if the file has a demand of resource r for container j of pod i. A container without a
	// demand takes part with its current resources, and keeps them.
	Measured [][][2]bool
}

// ParseDemands parses the file. Its error has one sentence for each mistake: the field, the value, and a valid
// example.
func ParseDemands(text []byte) (Demands, error) {
	var f *file
	err := eachDocument(text, func(_ int, object []byte) error {
		if f != nil {
			return errors.New("the file has a second document: keep one, because a file describes one node")
		}
		f = &file{}
		return decodeStrict(object, f)
	})
	if err == nil && f == nil {
		err = errors.New("the file has no demands: write allocatable and pods")
	}
	if err != nil {
		return Demands{}, err
	}
	// On a mistake the demands are not usable; the caller checks the error first.
	r := reader{file: f, pods: map[string]int{}}
	demands := r.demands()
	if len(r.problems) > 0 {
		err = errors.New(strings.Join(r.problems, "; "))
	}
	return demands, err
}

// file is the format of the YAML file. Its field names are a contract. For example:
//
//	allocatable: {cpu: "4", memory: 16Gi}
//	eviction: Enabled
//	pods:
//	- name: shop/web-1
//	  group: web
//	  evictionRanking: High
//	  containers:
//	  - name: app
//	    current: {cpu: 500m, memory: 512Mi}
//	    cpu: {base: 250m, peak: 800m}
//	    memory: {base: 300Mi, peak: 600Mi, max7d: 700Mi}
type file struct {
	// Allocatable is the node's capacity. A resource may be missing if no pod requests it.
	Allocatable amounts `json:"allocatable"`
	// Eviction is Enabled or Disabled; empty means Disabled.
	Eviction string `json:"eviction"`
	Pods     []pod  `json:"pods"`
}

// amounts of CPU and memory; nil means not given.
type amounts struct {
	CPU    *resource.Quantity `json:"cpu"`
	Memory *resource.Quantity `json:"memory"`
}

// pod is one pod of the file. Name is NAMESPACE/NAME. The pods of one Group spike together; without a group, the pod
// spikes alone. EvictionRanking is Low, Medium, High or Never; empty means Low.
type pod struct {
	Name            string      `json:"name"`
	Group           string      `json:"group"`
	DaemonSet       bool        `json:"daemonSet"`
	EvictionRanking string      `json:"evictionRanking"`
	InitRequest     amounts     `json:"initRequest"`
	Containers      []container `json:"containers"`
}

// container is one container of a pod. Current has its present requests.
type container struct {
	Name    string  `json:"name"`
	Current amounts `json:"current"`
	CPU     demand  `json:"cpu"`
	Memory  memory  `json:"memory"`
}

// demand is the demand of a resource. Base is needed always, Peak is the maximum within a day. Both are required, or
// neither.
type demand struct {
	Base *resource.Quantity `json:"base"`
	Peak *resource.Quantity `json:"peak"`
}

// memory adds the fields that only memory has: the highest usage of seven days, and the minimum learned from OOM
// kills.
type memory struct {
	demand `json:",inline"`
	Max7d  *resource.Quantity `json:"max7d"`
	OOM    *resource.Quantity `json:"oom"`
}

// examples are valid amounts for error messages.
var examples = [2]string{recommender.CPU: "500m", recommender.Memory: "256Mi"}

// reader converts a file to demands and collects the mistakes.
type reader struct {
	file     *file
	problems []string
	// pods maps the names so far to the index of the pod.
	pods map[string]int
	// asked is the path of the first field that needs a resource; empty if no field does.
	asked [2]string
}

// mistake records one mistake and continues.
func (r *reader) mistake(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// demands converts the whole file. It checks the allocatable resources last, because the pods determine which are
// required.
func (r *reader) demands() Demands {
	var d Demands
	evicts := r.evicts()
	for i := range r.file.Pods {
		p, measured := r.pod(i, evicts)
		d.Pods, d.Measured = append(d.Pods, p), append(d.Measured, measured)
	}
	d.Available = r.both("allocatable", r.file.Allocatable)
	for of, given := range [2]*resource.Quantity{recommender.CPU: r.file.Allocatable.CPU, recommender.Memory: r.file.Allocatable.Memory} {
		of := recommender.Resource(of)
		if r.asked[of] != "" && given == nil {
			r.mistake("allocatable.%s is missing, but %s needs it: write the node's amount, e.g. %s", of, r.asked[of], examples[of])
		}
	}
	return d
}

// evicts reports whether pods may be evicted.
func (r *reader) evicts() bool {
	switch r.file.Eviction {
	case string(v1alpha1.Enabled):
		return true
	case "", string(v1alpha1.Disabled):
		return false
	}
	r.mistake("eviction %q is not valid: write %s or %s", r.file.Eviction, v1alpha1.Enabled, v1alpha1.Disabled)
	return false
}

// groupOf returns the pod's group within its namespace, as in a cluster; empty if it spikes alone.
func groupOf(p *pod) string {
	namespace, _, named := strings.Cut(p.Name, "/")
	switch {
	case p.Group == "":
		return ""
	case !named:
		namespace = ""
	}
	return board.GroupIn(namespace, p.Group)
}

// pod converts one pod, and returns which resources of its containers were measured. Without eviction the ranking is
// Never.
func (r *reader) pod(i int, evicts bool) (node.Pod, [][2]bool) {
	in, path := &r.file.Pods[i], fmt.Sprintf("pods[%d]", i)
	r.named(path, in.Name, "shop/web-1", "pod", i, r.pods)
	p := node.Pod{
		Name: in.Name, Group: groupOf(in), DaemonSet: in.DaemonSet,
		Ranking: r.ranking(path, in.EvictionRanking), InitRequest: r.both(path+".initRequest", in.InitRequest),
	}
	if !evicts {
		p.Ranking = node.Never
	}
	// An init request needs capacity of the node too.
	r.recordNeededResource(path+".initRequest", p.InitRequest)
	if len(in.Containers) == 0 {
		r.mistake("%s.containers is missing: write at least one, e.g. [{name: app, cpu: {base: 250m, peak: 800m}}]", path)
	}
	var measured [][2]bool
	names := map[string]int{}
	for j := range in.Containers {
		c, known := r.container(&in.Containers[j], fmt.Sprintf("%s.containers[%d]", path, j), j, names)
		if p.DaemonSet {
			// A file does not have the resources at creation, so use the current ones.
			c.AtCreation = c.Current
		}
		p.Containers, measured = append(p.Containers, c), append(measured, known)
	}
	return p, measured
}

// named checks that the n-th pod or container of a list has a unique name. names has the names so far.
func (r *reader) named(path, name, example, what string, n int, names map[string]int) {
	switch first, twice := names[name]; {
	case name == "":
		r.mistake("%s.name is missing: write e.g. %s", path, example)
	case twice:
		r.mistake("%s.name %q is also the name of %ss[%d]: use a unique name for each %s", path, name, what, first, what)
	default:
		names[name] = n
	}
}

// ranking converts the eviction ranking. Empty means Low, as in a policy.
func (r *reader) ranking(path, name string) node.Ranking {
	if name == "" {
		return node.Low
	}
	ranking, ok := node.RankingOf(name)
	if !ok {
		r.mistake("%s.evictionRanking %q is not valid: write Low, Medium, High or Never", path, name)
	}
	return ranking
}

// container converts one container. The current resources replace a missing demand.
func (r *reader) container(in *container, path string, j int, names map[string]int) (node.Container, [2]bool) {
	r.named(path, in.Name, "app", "container", j, names)
	c := node.Container{
		Name:    in.Name,
		Current: r.both(path+".current", in.Current),
		Max7d:   r.amount(recommender.Memory, path+".memory.max7d", in.Memory.Max7d),
		OOM:     r.amount(recommender.Memory, path+".memory.oom", in.Memory.OOM),
	}
	var measured [2]bool
	for of, given := range [2]demand{recommender.CPU: in.CPU, recommender.Memory: in.Memory.demand} {
		of := recommender.Resource(of)
		c.Of[of], measured[of] = r.demand(of, path+"."+of.String(), given)
		if !measured[of] {
			// Base and peak equal the current amount, so sharing changes neither up nor down.
			c.Of[of] = node.Unmeasured(c.Current[of])
		}
	}
	r.recordNeededResource(path, node.Amounts{c.Of[0].Peak, c.Of[1].Peak})
	return c, measured
}

// recordNeededResource records the first field that needs a resource, for the message about missing allocatable
// resources.
func (r *reader) recordNeededResource(path string, wanted node.Amounts) {
	for of := range wanted {
		if wanted[of] > 0 && r.asked[of] == "" {
			r.asked[of] = path
		}
	}
}

// demand converts a demand; false if not given.
func (r *reader) demand(of recommender.Resource, path string, given demand) (node.Demand, bool) {
	switch {
	case given.Base == nil && given.Peak == nil:
		return node.Demand{}, false
	case given.Base == nil:
		r.mistake("%s.base is missing, but peak is %s: write the amount that is always needed, e.g. %s", path, given.Peak, examples[of])
	case given.Peak == nil:
		r.mistake("%s.peak is missing, but base is %s: write the amount that is needed at most, e.g. %s", path, given.Base, examples[of])
	}
	d := node.Demand{Base: r.amount(of, path+".base", given.Base), Peak: r.amount(of, path+".peak", given.Peak)}
	if given.Base != nil && given.Peak != nil && d.Base > d.Peak {
		r.mistake("%s.base %s is above the peak %s: write the amount that is always needed as base, and the highest usage as peak", path, given.Base, given.Peak)
	}
	if most := mostOfNode * r.allocatable(of); most > 0 && d.Peak > most {
		r.mistake("%s.peak %s is above %d times allocatable.%s: write the highest usage, or correct allocatable.%s", path, given.Peak, mostOfNode, of, of)
	}
	return d, true
}

// mostOfNode bounds a plausible peak. allocatable may be only a small part of the node.
const mostOfNode = 10

// allocatable returns what the node has of a resource; 0 if not given.
func (r *reader) allocatable(of recommender.Resource) recommender.Amount {
	return podview.FromPointer(of, [2]*resource.Quantity{recommender.CPU: r.file.Allocatable.CPU, recommender.Memory: r.file.Allocatable.Memory}[of])
}

// both converts amounts of CPU and memory.
func (r *reader) both(path string, given amounts) node.Amounts {
	return node.Amounts{
		recommender.CPU:    r.amount(recommender.CPU, path+".cpu", given.CPU),
		recommender.Memory: r.amount(recommender.Memory, path+".memory", given.Memory),
	}
}

// mostCPU is above any container and node; a larger amount is probably in millicores without the unit.
const mostCPU = 1024 * 1000

// amount converts a quantity to millicores or bytes; 0 if not given.
func (r *reader) amount(of recommender.Resource, path string, given *resource.Quantity) recommender.Amount {
	if given == nil {
		return 0
	}
	if given.Sign() < 0 {
		r.mistake("%s %s is negative: write e.g. %s", path, given, examples[of])
	}
	amount := podview.AmountOf(of, *given)
	if of == recommender.Memory && amount > 0 && amount < leastMemory {
		r.mistake("%s %s is below 1Mi: is a unit missing, e.g. %s", path, given, examples[of])
	}
	if of == recommender.CPU && amount > mostCPU {
		r.mistake("%s %s is above 1024 cores: is a unit missing, e.g. %s", path, given, examples[of])
	}
	return amount
}
