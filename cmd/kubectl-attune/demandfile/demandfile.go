// Package demandfile reads what the pods of a node demand from a YAML file, strictly, so that a node can be
// shared without a cluster.
package demandfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/resource"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"attune.io/attune/cmd/kubectl-attune/strict"
	"attune.io/attune/recommender/node"
)

// Demands of the pods of a node.
type Demands struct {
	// Available is what the node has for them.
	Available node.Amounts
	Pods      []node.Pod
	// Measured says of each pod's containers which resources anything is known of. The others take part
	// with what they hold, and keep it.
	Measured [][][2]bool
}

// Parse reads the file. Every error is one sentence per mistake: field, value, and what would do.
func Parse(text []byte) (Demands, error) {
	object, err := onlyDocument(text)
	if err != nil {
		return Demands{}, err
	}
	var f file
	if err := strict.Decode(object, &f); err != nil {
		return Demands{}, err
	}
	r := reader{file: &f, pods: map[string]int{}}
	demands := r.demands()
	return demands, r.mistakes()
}

// onlyDocument is the one YAML document of a file, as JSON.
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

// file is the form of demands.yaml.
type file struct {
	Allocatable amounts `json:"allocatable"`
	Eviction    string  `json:"eviction"`
	Pods        []pod   `json:"pods"`
}

type amounts struct {
	CPU    *resource.Quantity `json:"cpu"`
	Memory *resource.Quantity `json:"memory"`
}

type pod struct {
	Name            string      `json:"name"`
	Group           string      `json:"group"`
	DaemonSet       bool        `json:"daemonSet"`
	EvictionRanking string      `json:"evictionRanking"`
	InitRequest     amounts     `json:"initRequest"`
	Containers      []container `json:"containers"`
}

type container struct {
	Name    string  `json:"name"`
	Current amounts `json:"current"`
	CPU     demand  `json:"cpu"`
	Memory  memory  `json:"memory"`
}

type demand struct {
	Base *resource.Quantity `json:"base"`
	Peak *resource.Quantity `json:"peak"`
}

type memory struct {
	demand `json:",inline"`
	Max7d  *resource.Quantity `json:"max7d"`
	OOM    *resource.Quantity `json:"oom"`
}
