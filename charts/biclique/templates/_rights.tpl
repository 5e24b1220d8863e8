{{- /*
What the operator may do where it looks after queries. Each resource is used: what it makes for a query, what it has to know
of it, and what it hands on to drivers, since nobody may grant what he does not have.
*/ -}}
{{- define "biclique.rights" -}}
- apiGroups: [biclique.dev]
  resources: [joinqueries]
  verbs: [get, list, watch, update, patch]
- apiGroups: [biclique.dev]
  resources: [joinsubgroups]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [biclique.dev]
  resources: [joinqueries/status, joinsubgroups/status]
  verbs: [get, update, patch]
- apiGroups: [biclique.dev]
  resources: [joinqueries/finalizers, joinsubgroups/finalizers]
  verbs: [update]
# Its own, and what a driver with executors needs for Spark.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection]
- apiGroups: [""]
  resources: [configmaps, serviceaccounts]
  verbs: [get, list, watch, create, update, patch, delete]
# The name of a query's pods: applied, watched, and removed where a query wants it no more; no driver is granted any.
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch, create, patch, delete]
# To read those that a manifest names, for what a deleted query has left; to make one for each query with executors, by
# which they and their drivers know each other.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [get, list, watch, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, update, patch, delete]
{{- end -}}
