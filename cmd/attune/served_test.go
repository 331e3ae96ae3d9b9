package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type core struct {
	names []string
	err   error
}

func (c core) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	list := &metav1.APIResourceList{GroupVersion: version}
	for _, name := range c.names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, c.err
}

func TestServesResize(t *testing.T) {
	for name, tc := range map[string]struct {
		api    core
		served bool
	}{
		"served":   {core{names: []string{"pods", "pods/resize"}}, true},
		"not":      {core{names: []string{"pods", "pods/status"}}, false},
		"no reply": {core{names: []string{"pods/resize"}, err: errors.New("cut off")}, false},
	} {
		served, err := servesResize(tc.api)
		assert.Equal(t, tc.served, served, name)
		assert.ErrorIs(t, err, tc.api.err, name)
	}
}
