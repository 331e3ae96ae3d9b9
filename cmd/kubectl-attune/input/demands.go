package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/resource"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"attune.io/attune/recommender/node"
)

// Demands are the input of node.Sharer.Share.
type Demands struct {
	// Available is what the node has for the pods, in millicores and bytes: allocatable of the file.
	Available node.Amounts
	// Pods in the order of the file.
	Pods []node.Pod
	// Measured[i][j][r] is true where the file has a demand of resource r for container j of pod i. A container
	// without a demand takes part with what it holds, and keeps that.
	Measured [][][2]bool
}

// ParseDemands reads the file. Its error has one sentence for each mistake: the field, the value, and what would work.
func ParseDemands(text []byte) (Demands, error) {
	object, err := onlyDocument(text)
	if err != nil {
		return Demands{}, err
	}
	var f file
	if err := decodeStrict(object, &f); err != nil {
		return Demands{}, err
	}
	// The demands are of no use where there is a mistake; the caller looks at the error first.
	r := reader{file: &f, pods: map[string]int{}}
	demands := r.demands()
	return demands, r.mistakes()
}

// onlyDocument returns the only YAML document of a file, as JSON. None and several are errors.
func onlyDocument(text []byte) ([]byte, error) {
	var only []byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		object, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("it is not YAML: %w", err)
		}
		switch {
		case string(object) == "null":
		case only != nil:
			return nil, errors.New("it holds a second document: one file is one node, leave one of them")
		default:
			only = object
		}
	}
	if only == nil {
		return nil, errors.New("it holds no demands: write allocatable and pods")
	}
	return only, nil
}

// file is the format of the YAML file. Its field names are a contract.
// For example:
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
	// Allocatable is what the node has; a resource that no pod asks for may be missing.
	Allocatable amounts `json:"allocatable"`
	// Eviction is Enabled or Disabled; empty: Disabled.
	Eviction string `json:"eviction"`
	Pods     []pod  `json:"pods"`
}

// amounts of CPU and memory; nil: not given.
type amounts struct {
	CPU    *resource.Quantity `json:"cpu"`
	Memory *resource.Quantity `json:"memory"`
}

// pod is one pod of the file. Name is NAMESPACE/NAME. Pods of one Group share spikes; empty: the pod spikes alone.
// EvictionRanking is Low, Medium, High or Never; empty: Low.
type pod struct {
	Name            string      `json:"name"`
	Group           string      `json:"group"`
	DaemonSet       bool        `json:"daemonSet"`
	EvictionRanking string      `json:"evictionRanking"`
	InitRequest     amounts     `json:"initRequest"`
	Containers      []container `json:"containers"`
}

// container is one container of a pod. Current is what it holds.
type container struct {
	Name    string  `json:"name"`
	Current amounts `json:"current"`
	CPU     demand  `json:"cpu"`
	Memory  memory  `json:"memory"`
}

// demand of a resource: Base is needed always, Peak at most within a day. Both are given or neither.
type demand struct {
	Base *resource.Quantity `json:"base"`
	Peak *resource.Quantity `json:"peak"`
}

// memory adds what is known of memory alone: the highest usage of seven days, and
// the amount that OOM kills taught.
type memory struct {
	demand `json:",inline"`
	Max7d  *resource.Quantity `json:"max7d"`
	OOM    *resource.Quantity `json:"oom"`
}
