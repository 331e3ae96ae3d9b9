package input

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// Documents holds the objects of a file.
type Documents struct {
	// Policy is never nil if ParsePolicy succeeded.
	Policy *v1alpha1.AttunePolicy
	// Namespace are the defaults of the namespace; nil if the file has none.
	Namespace *v1alpha1.AttuneNamespaceDefaults
	// Cluster are the defaults of the cluster; nil if the file has none.
	Cluster *v1alpha1.AttuneDefaults
}

// ParsePolicy parses the documents of a file. Its error has one sentence for each mistake: the field, the value, and a
// valid example.
func ParsePolicy(text []byte) (Documents, error) {
	var documents Documents
	if err := eachDocument(text, func(number int, object []byte) error { return inDocument(number, documents.add(object)) }); err != nil {
		return Documents{}, err
	}
	// Defaults need a policy.
	if documents.Policy == nil {
		return Documents{}, errors.New("the file has no AttunePolicy: add a document with apiVersion attune.io/v1alpha1 and kind AttunePolicy")
	}
	return documents, nil
}

// eachDocument yields the YAML documents of a file as JSON, with their numbers. It skips empty ones.
func eachDocument(text []byte, yield func(number int, object []byte) error) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var object []byte
		if err == nil {
			object, err = yaml.YAMLToJSONStrict(document)
		}
		if err != nil {
			return inDocument(number, fmt.Errorf("invalid YAML: %w", err))
		}
		// A document with only comments, or an empty one between two separators.
		if string(object) == "null" {
			continue
		}
		if err := yield(number, object); err != nil {
			return err
		}
	}
}

// inDocument adds the number of the document to an error, except for the first one.
func inDocument(number int, err error) error {
	if number == 1 || err == nil {
		return err
	}
	return fmt.Errorf("document %d: %w", number, err)
}

// add decodes one document. It checks the API version before the kind, so that a policy of another product is not
// taken for one of attune.
func (d *Documents) add(text []byte) error {
	// Version and kind determine the Go type of the document.
	var meta struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return errors.New("not a Kubernetes object: start it with apiVersion attune.io/v1alpha1 and kind AttunePolicy")
	}
	if strings.HasSuffix(meta.Kind, "List") { // as kubectl get -o yaml and --raw print several objects
		for i, item := range meta.Items {
			if err := d.add(item); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	if err := foreign(meta.TypeMeta); err != nil {
		return err
	}
	switch kind := meta.Kind; kind {
	case "AttunePolicy":
		return once(&d.Policy, kind, text)
	case "AttuneClusterPolicy":
		return d.clusterPolicy(kind, text)
	case "AttuneNamespaceDefaults":
		if err := once(&d.Namespace, kind, text); err != nil {
			return err
		}
		return namedDefault(kind, d.Namespace.Name)
	case "AttuneDefaults":
		if err := once(&d.Cluster, kind, text); err != nil {
			return err
		}
		return namedDefault(kind, d.Cluster.Name)
	}
	// Reject it: it may be a typing mistake, and ignoring it would change the result.
	return fmt.Errorf("kind %q is not supported here: use AttunePolicy or AttuneClusterPolicy, and optionally AttuneNamespaceDefaults and AttuneDefaults", meta.Kind)
}

// foreign is the error of an object of another product; nil for one of attune.
func foreign(of metav1.TypeMeta) error {
	group, _, named := strings.Cut(of.APIVersion, "/")
	switch {
	case of.Kind == "VerticalPodAutoscaler":
		return errors.New("a VerticalPodAutoscaler is not a policy: convert it with kubectl attune import vpa")
	case named && group != v1alpha1.GroupVersion.Group && !strings.HasPrefix(of.Kind, "Attune"):
		return fmt.Errorf("a %s is not a policy: use a file with an AttunePolicy", of.Kind)
	case of.APIVersion != v1alpha1.GroupVersion.String():
		return fmt.Errorf("apiVersion %q is not valid for attune: write %s", of.APIVersion, v1alpha1.GroupVersion)
	}
	return nil
}

// clusterPolicy converts a cluster policy to the policy of a namespace that it selects.
func (d *Documents) clusterPolicy(kind string, text []byte) error {
	var of *v1alpha1.AttuneClusterPolicy
	if d.Policy != nil {
		return errors.New("the file has two policies: keep one AttunePolicy or AttuneClusterPolicy")
	}
	if err := once(&of, kind, text); err != nil {
		return err
	}
	d.Policy = policy.Instance(of, "", true)
	return nil
}

// once decodes a document of a kind that may occur once in a file.
func once[T any](into **T, kind string, text []byte) error {
	if *into != nil {
		return fmt.Errorf("the file has a second %s: keep one of them", kind)
	}
	*into = new(T)
	return decodeStrict(text, *into)
}

// namedDefault rejects defaults with a name other than default, because the operator would ignore them silently.
func namedDefault(kind, name string) error {
	if name != v1alpha1.DefaultsName {
		return fmt.Errorf("%s metadata.name %q is not used: write %s", kind, name, v1alpha1.DefaultsName)
	}
	return nil
}

// Written is an AttunePolicy as a user writes it, without status and without fields that the API server sets.
type Written struct {
	APIVersion string                    `json:"apiVersion"`
	Kind       string                    `json:"kind"`
	Metadata   Metadata                  `json:"metadata"`
	Spec       v1alpha1.AttunePolicySpec `json:"spec"`
}

// Metadata is the metadata of a policy.
type Metadata struct {
	Name string `json:"name"`
	// Namespace is empty if kubectl apply shall choose it.
	Namespace string `json:"namespace,omitempty"`
}

// WritePolicy returns a policy with this spec.
func WritePolicy(of Metadata, spec v1alpha1.AttunePolicySpec) *Written {
	return &Written{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AttunePolicy", Metadata: of, Spec: spec}
}

// Human writes the policy as YAML; -o wide changes nothing.
func (w *Written) Human(bool) (string, error) {
	text, err := yaml.Marshal(w)
	return string(text), err
}

// Acts reports whether the policy changes pods. spec.updateStrategy.type must be set.
func (w *Written) Acts() bool {
	switch *w.Spec.UpdateStrategy.Type {
	case v1alpha1.UpdateObserve, v1alpha1.UpdateRecommend:
		return false
	}
	return true
}

// Made returns the value that at points to, and allocates it first if it is nil.
func Made[T any](at **T) *T {
	if *at == nil {
		*at = new(T)
	}
	return *at
}
