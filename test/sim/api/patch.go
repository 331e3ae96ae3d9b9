package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patch an object, or its status; it fills o with what is stored then.
func (s *Server) patch(o client.Object, p client.Patch, of part) error {
	k := s.kindOf(o)
	stored, err := s.find(k, client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	next, err := patched(k, stored, o, p)
	if err != nil {
		return err
	}
	return s.replace(k, stored, next, of, o)
}

// tryPatch answers as patch does, and stores nothing.
func (s *Server) tryPatch(o client.Object, p client.Patch) error {
	k := s.kindOf(o)
	stored, err := s.find(k, client.ObjectKeyFromObject(o))
	if err != nil {
		return err
	}
	next, err := patched(k, stored, o, p)
	if err != nil {
		return err
	}
	return sameVersion(k, stored, next)
}

// patched is what a patch makes of an object. The patch is of o, as its caller has it.
func patched(k *kind, stored, o client.Object, p client.Patch) (client.Object, error) {
	data, err := p.Data(o)
	if err != nil {
		return nil, err
	}
	next, err := merged(stored, data, p.Type())
	if err != nil {
		next, err = applied(k, stored, data, p.Type())
	}
	if err != nil {
		return nil, err
	}
	if next.GetUID() != stored.GetUID() {
		path := field.NewPath("metadata", "uid")
		return nil, apierrors.NewInvalid(k.GroupKind(), stored.GetName(), field.ErrorList{field.Invalid(path, next.GetUID(), "field is immutable")})
	}
	return next, nil
}

// merged is what a JSON merge patch makes of an object; an error has it made from its text.
func merged(stored client.Object, data []byte, how types.PatchType) (client.Object, error) {
	if how != types.MergePatchType {
		return nil, errUntyped
	}
	next := wire(stored)
	return next, merge(reflect.ValueOf(next).Elem(), data)
}

// applied is what a patch makes of an object's text.
func applied(k *kind, stored client.Object, data []byte, how types.PatchType) (client.Object, error) {
	before, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	after, err := apply(k, before, data, how)
	if err != nil && how == types.JSONPatchType {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := k.New()
	if err := json.Unmarshal(after, next); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return next, nil
}

func apply(k *kind, before, data []byte, how types.PatchType) ([]byte, error) {
	switch how {
	case types.MergePatchType:
		return jsonpatch.MergePatch(before, data)
	case types.StrategicMergePatchType:
		return strategicpatch.StrategicMergePatch(before, data, k.New())
	case types.JSONPatchType:
		p, err := jsonpatch.DecodePatch(data)
		if err != nil {
			return nil, err
		}
		return p.Apply(before)
	}
	return nil, fmt.Errorf("the server applies no %s", how)
}
